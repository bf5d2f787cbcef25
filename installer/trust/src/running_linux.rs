//! Linux only: browsers that run, from `/proc`.
use std::{fs, path::Path};

use crate::step::Browser;

/// A running browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningBrowser {
    /// Which one.
    pub browser: Browser,
    /// Name of the program.
    pub name: String,
    /// Number of its first process.
    pub pid: u32,
}

/// Returns the browsers that run, one process of each; only processes of the owner of `home` count.
pub fn running_browsers(proc: &Path, home: &Path) -> Vec<RunningBrowser> {
    let owner = owner(home);
    let mut found: Vec<RunningBrowser> = Vec::new();
    let mut pids: Vec<u32> = fs::read_dir(proc)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    for pid in pids {
        let process = proc.join(pid.to_string());
        let Ok(name) = fs::read_to_string(process.join("comm")) else {
            continue;
        };
        let name = name.trim().to_owned();
        let Some(browser) = browser_of(&name) else {
            continue;
        };
        let is_known = found.iter().any(|known| known.browser == browser);
        if !is_known && (owner.is_none() || self::owner(&process) == owner) {
            found.push(RunningBrowser { browser, name, pid });
        }
    }
    found
}

/// The browser of a process name, which the kernel cuts after 15 bytes.
fn browser_of(name: &str) -> Option<Browser> {
    match name {
        "chromium" | "chromium-browse" | "chrome" | "google-chrome" | "brave" | "msedge" | "vivaldi-bin" => {
            Some(Browser::Chromium)
        }
        "firefox" | "firefox-esr" | "firefox-bin" | "firefox.real" => Some(Browser::Firefox),
        _ => None,
    }
}

#[cfg(unix)]
fn owner(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).ok().map(|metadata| metadata.uid())
}

#[cfg(not(unix))]
fn owner(_path: &Path) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_found_by_the_names_of_processes() {
        let directory = tempfile::tempdir().unwrap();
        let proc = directory.path();
        for (pid, name) in [
            ("7", "firefox-esr"),
            ("31", "chromium"),
            ("9", "chromium"),
            ("4", "sh"),
            ("self", "chrome"),
        ] {
            fs::create_dir(proc.join(pid)).unwrap();
            fs::write(proc.join(pid).join("comm"), format!("{name}\n")).unwrap();
        }
        let found = running_browsers(proc, proc);
        let found: Vec<_> = found
            .iter()
            .map(|running| (running.browser, running.pid))
            .collect();
        assert_eq!(found, [(Browser::Firefox, 7), (Browser::Chromium, 9)]);
        assert!(running_browsers(&proc.join("none"), proc).is_empty());
    }
}
