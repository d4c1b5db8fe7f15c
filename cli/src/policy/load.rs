//! Policy files from disk, with the sets that they include.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::policy::{Date, LayerKind, Policies, Policy, PolicyError};
use router::server::includes::included;

use crate::exit::Failure;

pub fn text(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{} cannot be read ({error}); name a file that can.", path.display())))
}

pub fn parse(path: &Path, text: &str) -> Result<Policy, PolicyError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let read =
        |path: &Path| fs::read_to_string(path).map_err(|error| format!("{} cannot be read ({error})", path.display()));
    Policy::parse_with(text, &path.display().to_string(), &mut |pattern| included(dir, pattern, &read))
}

pub fn policy(path: &Path) -> Result<Policy, Failure> {
    parse(path, &text(path)?).map_err(|error| Failure::usage(error.to_string()))
}

/// As one task would have them: the files of one layer, judged together.
pub fn together(paths: &[PathBuf], today: Date) -> Result<Policies, Failure> {
    let files: Vec<Arc<Policy>> = paths.iter().map(|path| policy(path).map(Arc::new)).collect::<Result<_, _>>()?;
    Policies::layered(vec![(LayerKind::Task, files)], today).map_err(|error| Failure::usage(error.to_string()))
}

/// Each file, and of each directory its `*.toml` in order.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let unreadable = |error: std::io::Error| {
            Failure::usage(format!("The directory {} cannot be read ({error}); name the files.", path.display()))
        };
        let mut inner = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.path();
            if file.extension().is_some_and(|extension| extension == "toml") && file.is_file() {
                inner.push(file);
            }
        }
        if inner.is_empty() {
            return Err(Failure::usage(format!(
                "The directory {} holds no *.toml; name a policy file.",
                path.display()
            )));
        }
        inner.sort();
        files.append(&mut inner);
    }
    Ok(files)
}
