//! Files that hold secrets or belong to one user: made with narrow modes, refused with wider ones.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use router::server::Token;
use router::server::token::Tokens;

/// Makes the directory (0700) and those above it. One that exists must be this user's and closed to others: in a shared
/// temp directory, somebody else may have made it before us.
pub fn private_dir(dir: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| {
        format!("The directory {} cannot be made ({error}); make it or choose another place.", dir.display())
    })?;
    let about = fs::symlink_metadata(dir)
        .map_err(|error| format!("The directory {} cannot be read ({error}).", dir.display()))?;
    if !about.is_dir() || about.uid() != nix::unistd::geteuid().as_raw() || about.mode() & 0o077 != 0 {
        return Err(format!(
            "The directory {} is not this user's alone, so nothing private is put there; `chmod 700` it or remove it.",
            dir.display()
        ));
    }
    Ok(())
}

/// Whole or not at all, readable by its owner only.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let fresh = path.with_file_name(name);
    // Left over from a process with the same id, at most.
    let _ = fs::remove_file(&fresh);
    let written =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh).and_then(|mut file: File| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
    written.and_then(|()| fs::rename(&fresh, path)).inspect_err(|_| {
        let _ = fs::remove_file(&fresh);
    })
}

/// The secret in a file that only its owner may read.
pub fn read_secret(path: &Path) -> Result<String, String> {
    let about =
        fs::metadata(path).map_err(|error| format!("The token file {} cannot be read ({error}).", path.display()))?;
    if about.permissions().mode() & 0o077 != 0 {
        return Err(format!(
            "The token file {} is open to other users; `chmod 600` it and replace the token.",
            path.display()
        ));
    }
    let text = fs::read_to_string(path)
        .map_err(|error| format!("The token file {} cannot be read ({error}).", path.display()))?;
    Ok(text.trim().to_owned())
}

/// The token in the file; a missing file is made with a new one, so that a script's URL survives restarts.
pub fn token_file(path: &Path) -> Result<Token, String> {
    if !path.exists() {
        let token = Tokens::new()?.draw()?;
        write_private(path, &format!("{}\n", token.reveal())).map_err(|error| {
            format!("The token file {} cannot be made ({error}); name one in a directory of yours.", path.display())
        })?;
        return Ok(token);
    }
    Token::parse(&read_secret(path)?).ok_or_else(|| {
        format!(
            "The token file {} holds no token (32 lower-case hex characters); remove it to get a new one.",
            path.display()
        )
    })
}

/// `$XDG_RUNTIME_DIR/tabwarden`, else one for this user in the temp directory.
pub fn runtime_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir).join("tabwarden"),
        None => std::env::temp_dir().join(format!("tabwarden-{}", nix::unistd::geteuid())),
    }
}

/// `$XDG_DATA_HOME/tabwarden`, else below the home directory. `need`: what there is no place for without, and how to do
/// without.
pub fn data_dir(need: &str) -> Result<PathBuf, String> {
    let base = std::env::var_os("XDG_DATA_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let base = base.or_else(|| home().map(|home| home.join(".local/share")));
    base.map(|base| base.join("tabwarden"))
        .ok_or_else(|| format!("Neither XDG_DATA_HOME nor HOME is set, so there is no place for {need}."))
}

/// Where audits are written that were given no file.
pub fn audit_dir() -> Result<PathBuf, String> {
    Ok(data_dir("the audit; set one or use --audit-file FILE")?.join("audit"))
}

/// Below the data directory; a service without a home has its runtime directory.
pub fn tasks_dir() -> PathBuf {
    data_dir("tasks").unwrap_or_else(|_| runtime_dir()).join("tasks")
}

pub fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_missing_token_file_is_made_for_its_owner_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let token = token_file(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(token_file(&path).unwrap(), token);
    }

    #[test]
    fn a_token_file_that_others_can_read_or_without_a_token_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        token_file(&path).unwrap();
        for wide in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(wide)).unwrap();
            assert!(token_file(&path).unwrap_err().contains("chmod 600"), "{wide:o}");
        }
        fs::write(&path, "hello").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(token_file(&path).unwrap_err().contains("holds no token"));
    }

    #[test]
    fn a_directory_that_others_can_enter_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        private_dir(&inner).unwrap();
        assert_eq!(mode(&inner), 0o700);
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(private_dir(&inner).is_err());
    }
}
