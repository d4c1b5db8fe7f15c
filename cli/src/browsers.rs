//! Where browsers of the Chromium family are found: their programs and the directories of their profiles.
//!
//! Linux is tested; the paths of other systems are from their vendors' documentation.

use std::path::{Path, PathBuf};

pub struct Known {
    pub name: &'static str,
    /// Names in PATH, or whole paths.
    pub programs: &'static [&'static str],
    /// Below the home directory.
    pub user_data: &'static [&'static str],
}

#[cfg(not(any(target_os = "macos", windows)))]
pub const KNOWN: &[Known] = &[
    Known {
        name: "Chrome",
        programs: &["google-chrome-stable", "google-chrome", "/opt/google/chrome/chrome"],
        user_data: &[
            ".config/google-chrome",
            ".config/google-chrome-beta",
            ".config/google-chrome-unstable",
            ".var/app/com.google.Chrome/config/google-chrome",
        ],
    },
    Known {
        name: "Chromium",
        programs: &["chromium", "chromium-browser", "/snap/bin/chromium"],
        user_data: &[
            ".config/chromium",
            "snap/chromium/common/chromium",
            ".var/app/org.chromium.Chromium/config/chromium",
        ],
    },
    Known {
        name: "Edge",
        programs: &["microsoft-edge-stable", "microsoft-edge"],
        user_data: &[".config/microsoft-edge"],
    },
    Known { name: "Brave", programs: &["brave-browser", "brave"], user_data: &[".config/BraveSoftware/Brave-Browser"] },
];

#[cfg(target_os = "macos")]
pub const KNOWN: &[Known] = &[
    Known {
        name: "Chrome",
        programs: &["/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"],
        user_data: &["Library/Application Support/Google/Chrome", "Library/Application Support/Google/Chrome Beta"],
    },
    Known {
        name: "Chromium",
        programs: &["/Applications/Chromium.app/Contents/MacOS/Chromium"],
        user_data: &["Library/Application Support/Chromium"],
    },
    Known {
        name: "Edge",
        programs: &["/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge"],
        user_data: &["Library/Application Support/Microsoft Edge"],
    },
    Known {
        name: "Brave",
        programs: &["/Applications/Brave Browser.app/Contents/MacOS/Brave Browser"],
        user_data: &["Library/Application Support/BraveSoftware/Brave-Browser"],
    },
];

#[cfg(windows)]
pub const KNOWN: &[Known] = &[
    Known {
        name: "Chrome",
        programs: &[
            r"C:\Program Files\Google\Chrome\Application\chrome.exe",
            r"C:\Program Files (x86)\Google\Chrome\Application\chrome.exe",
        ],
        user_data: &[r"AppData\Local\Google\Chrome\User Data"],
    },
    Known { name: "Chromium", programs: &[], user_data: &[r"AppData\Local\Chromium\User Data"] },
    Known {
        name: "Edge",
        programs: &[r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe"],
        user_data: &[r"AppData\Local\Microsoft\Edge\User Data"],
    },
    Known {
        name: "Brave",
        programs: &[r"C:\Program Files\BraveSoftware\Brave-Browser\Application\brave.exe"],
        user_data: &[r"AppData\Local\BraveSoftware\Brave-Browser\User Data"],
    },
];

/// The first known program that is installed.
pub fn find_program(search_path: &std::ffi::OsStr) -> Option<PathBuf> {
    let programs = KNOWN.iter().flat_map(|known| known.programs);
    programs.filter_map(|program| locate(program, search_path)).next()
}

fn locate(program: &str, search_path: &std::ffi::OsStr) -> Option<PathBuf> {
    if Path::new(program).is_absolute() {
        return Path::new(program).is_file().then(|| program.into());
    }
    std::env::split_paths(search_path).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// Every default profile directory below this home, whether it is there or not.
pub fn user_data_dirs(home: &Path) -> impl Iterator<Item = (&'static str, PathBuf)> {
    KNOWN.iter().flat_map(move |known| known.user_data.iter().map(move |dir| (known.name, home.join(dir))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_name_in_the_path_wins() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["brave", "chromium"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(find_program(dir.path().as_os_str()), Some(dir.path().join("chromium")));
    }
}
