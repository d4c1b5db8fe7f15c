//! Why a browser that we started ended at once, in words with a remedy.

use std::process::ExitStatus;

use crate::exit::Failure;

pub fn failure(status: Option<ExitStatus>, lines: &[String]) -> Failure {
    let log = lines.join("\n");
    let has = |needles: &[&str]| needles.iter().any(|needle| log.contains(needle));
    // Chromium's RESULT_CODE_PROFILE_IN_USE; "Opening in existing browser session" comes with exit code 0.
    let in_use = status.and_then(|status| status.code()) == Some(21);
    if in_use || has(&["profile appears to be in use", "Opening in existing browser session", "ProcessSingleton"]) {
        return Failure::new(
            "Another browser is using this profile; close it, or use another with --profile-name NAME or --ephemeral.",
        );
    }
    if has(&["Running as root without --no-sandbox"]) {
        return Failure::usage(
            "Chromium does not start as root with its sandbox; run Tabwarden as another user, or give --no-sandbox \
                where all pages are trusted.",
        );
    }
    if has(&["No usable sandbox", "setuid sandbox", "zygote_host_impl_linux"]) {
        return Failure::new(
            "The browser's sandbox does not work here, as user namespaces are not allowed (common in containers); \
                allow them (kernel.unprivileged_userns_clone=1, or the container's seccomp profile), or give \
                --no-sandbox where all pages are trusted.",
        );
    }
    if has(&[
        "Missing X server",
        "cannot open display",
        "Unable to open X display",
        "Failed to connect to Wayland",
        "ozone_platform",
    ]) {
        return Failure::new(
            "The display does not accept the browser's windows; check DISPLAY or WAYLAND_DISPLAY, or give --headless.",
        );
    }
    if has(&["error while loading shared libraries"]) {
        return Failure::new(format!("The browser lacks a library of the system; install it: {}", last(lines)));
    }
    let how = match status {
        Some(status) => format!("ended at once ({status})"),
        None => "closed its pipe".to_owned(),
    };
    let said = if lines.is_empty() {
        "It said nothing.".to_owned()
    } else {
        format!("It said last:\n  {}", lines.join("\n  "))
    };
    Failure::new(format!(
        "The browser {how}; start it by hand with the same flags to see why, or choose another with --browser-path. \
            {said}"
    ))
}

fn last(lines: &[String]) -> &str {
    lines.last().map(String::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> String {
        failure(None, &[line.to_owned()]).message
    }

    #[test]
    fn each_known_failure_has_its_remedy() {
        for (line, remedy) in [
            (
                "[1:1:ERROR:zygote_host_impl_linux.cc(101)] Running as root without --no-sandbox is not supported.",
                "another user",
            ),
            ("[1:1:FATAL:zygote_host_impl_linux.cc(127)] No usable sandbox!", "user namespaces"),
            ("[1:1:ERROR:ozone_platform_x11.cc(250)] Missing X server or $DISPLAY", "--headless"),
            ("The profile appears to be in use by another Chromium process (42)", "--profile-name"),
            ("chrome: error while loading shared libraries: libnss3.so", "libnss3.so"),
            ("something new", "something new"),
        ] {
            assert!(message(line).contains(remedy), "{line}");
        }
    }
}
