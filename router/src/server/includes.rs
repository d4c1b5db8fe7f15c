//! The files that a policy includes for its sets: below its own directory, by name or by `*` in the name.

use std::fs;
use std::path::Path;

use policy::Included;

/// For [`policy::Policy::parse_with`], which has seen to it that the pattern leads nowhere else. `read` reads one file, in
/// whatever way the policy itself was read.
pub fn included(
    dir: &Path,
    pattern: &str,
    read: &dyn Fn(&Path) -> Result<String, String>,
) -> Result<Vec<Included>, String> {
    let (below, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    if below.contains('*') || name.matches('*').count() > 1 {
        return Err("there can be one `*`, in the name of the file".to_owned());
    }
    let dir = if below.is_empty() { dir.to_owned() } else { dir.join(below) };
    let names = match name.split_once('*') {
        Some((start, end)) => matching(&dir, start, end)?,
        None => vec![name.to_owned()],
    };
    names
        .into_iter()
        .map(|name| {
            let path = dir.join(name);
            Ok(Included { text: read(&path)?, file: path.display().to_string() })
        })
        .collect()
}

/// In order, without hidden files: an editor's copy is no set.
fn matching(dir: &Path, start: &str, end: &str) -> Result<Vec<String>, String> {
    let unreadable = |error: std::io::Error| format!("the directory {} cannot be read ({error})", dir.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let Ok(name) = entry.map_err(unreadable)?.file_name().into_string() else { continue };
        let inner = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        if inner.is_some() && (!name.starts_with('.') || start.starts_with('.')) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_name_and_by_star() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sets")).unwrap();
        for name in ["b.toml", "a.toml", ".a.toml", "a.txt"] {
            fs::write(dir.path().join("sets").join(name), name).unwrap();
        }
        let read = |path: &Path| fs::read_to_string(path).map_err(|error| error.to_string());
        let texts = |pattern: &str| {
            let found = included(dir.path(), pattern, &read)?;
            Ok::<_, String>(found.into_iter().map(|included| included.text).collect::<Vec<_>>())
        };
        assert_eq!(texts("sets/*.toml").unwrap(), ["a.toml", "b.toml"]);
        assert_eq!(texts("sets/a.txt").unwrap(), ["a.txt"]);
        assert_eq!(texts("sets/x*").unwrap(), [""; 0]);
        for bad in ["*/a.toml", "sets/*a*.toml", "none/*.toml", "sets/none.toml"] {
            assert!(texts(bad).is_err(), "{bad}");
        }
    }
}
