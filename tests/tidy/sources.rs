//! Rules on source files.
use std::path::{Path, PathBuf};

/// Maximum lines of a file; a longer file has several concerns and is split.
const MAX_LINES: usize = 700;
/// File names that do not describe the contents.
const EMPTY_NAMES: &[&str] = &[
    "utils", "util", "common", "helpers", "helper", "manager", "misc", "handy",
];
/// Folders whose code gets time and randomness from its caller.
const PURE_FOLDERS: &[&str] = &[
    "protocol/src",
    "protocol/session",
    "protocol/types",
    "cache/codec",
    "protocol/http",
    "installer/demo/netem",
];

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("the crate of the tests is in a workspace")
        .to_path_buf()
}

/// All files with this ending outside of `target` folders, as (path from the root, text).
pub(crate) fn files(ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder is readable") {
            let path = entry.expect("the entry is readable").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    open.push(path);
                }
            } else if name.ends_with(ending) {
                let text = std::fs::read_to_string(&path).expect("the file is readable");
                let short = path
                    .strip_prefix(root())
                    .expect("the file is below the root")
                    .to_string_lossy()
                    .into_owned();
                found.push((short, text));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn source_files_do_not_exceed_the_line_limit() {
    for (path, text) in files(".rs") {
        let lines = text.lines().count();
        assert!(
            lines <= MAX_LINES,
            "{path} has {lines} lines: split it by concern"
        );
    }
}

#[test]
fn file_names_describe_the_contents() {
    for (path, _) in files(".rs") {
        let empty = Path::new(&path)
            .components()
            .map(|part| {
                part.as_os_str()
                    .to_string_lossy()
                    .trim_end_matches(".rs")
                    .to_owned()
            })
            .find(|part| EMPTY_NAMES.contains(&part.as_str()));
        assert_eq!(empty, None, "{path}");
    }
}

#[test]
fn every_crate_forbids_unsafe_code() {
    for (path, text) in files(".rs") {
        let is_root =
            path.ends_with("src/lib.rs") || path.ends_with("src/main.rs") || path.contains("/src/bin/");
        assert!(
            !is_root || text.contains("#![forbid(unsafe_code)]"),
            "{path} does not contain #![forbid(unsafe_code)]"
        );
    }
}

#[test]
fn pure_folders_read_no_clock_and_no_randomness() {
    let forbidden = [
        "Instant::now",
        "SystemTime::now",
        "getrandom",
        "std::net::UdpSocket",
        "std::fs::",
    ];
    for (path, text) in files(".rs") {
        let pure = PURE_FOLDERS.iter().any(|folder| path.starts_with(folder));
        let tests = path.contains("/tests/") || path.ends_with("tests.rs");
        if !pure || tests {
            continue;
        }
        for word in forbidden {
            assert!(!text.contains(word), "{path} uses {word}");
        }
    }
}

/// Endings of files that contain code for one platform.
const UNIX_FILES: [&str; 2] = ["_unix.rs", "_linux.rs"];
/// The command `longhaul`, whose wait for signals is not portable yet.
const NOT_PORTABLE_YET: [&str; 1] = ["installer/src/commands.rs"];

#[test]
fn code_for_unix_is_in_files_that_say_so() {
    // A guarded line of a portable file is permitted: the mode of a new file, for example.
    let is_guard = |line: &str| {
        let line = line.trim_start();
        line.starts_with("#[cfg(") && (line.contains("unix") || line.contains("linux"))
    };
    for (path, text) in files(".rs") {
        let is_test = path.contains("/tests/") || path.starts_with("tests/") || path.ends_with("tests.rs");
        if NOT_PORTABLE_YET.contains(&path.as_str()) {
            continue;
        }
        if is_test || UNIX_FILES.iter().any(|ending| path.ends_with(ending)) {
            continue;
        }
        // Tests of a module are at its end and run on Unix.
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let lines: Vec<_> = code.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if !(line.contains("tokio::signal::unix") || line.contains("std::os::unix")) {
                continue;
            }
            let before = &lines[index.saturating_sub(2)..index];
            assert!(
                before.iter().any(|line| is_guard(line)),
                "{path}:{}: code for Unix: move it to a file `*_unix.rs` with a sibling `*_portable.rs`, or guard \
                 the line with #[cfg(unix)]",
                index + 1
            );
        }
    }
}

#[test]
fn snow_and_bincode_are_used_only_in_their_modules() {
    for (path, text) in files(".rs") {
        if path.starts_with("tests/tidy") {
            continue;
        }
        assert!(
            !text.contains("snow::") || path.starts_with("protocol/src/crypto/"),
            "{path} uses snow outside of protocol/src/crypto"
        );
        let encodes = text.contains("bincode::encode") || text.contains("bincode::decode");
        assert!(
            !encodes || path.starts_with("protocol/session/src/"),
            "{path} uses bincode outside of the session crate"
        );
    }
}

#[test]
fn the_layout_of_tcp_info_is_in_one_crate() {
    for (path, text) in files(".rs") {
        let may = path.starts_with("protocol/tcp-info/") || path.starts_with("tests/tidy");
        assert!(
            may || !text.contains("libc::TCP_INFO"),
            "{path} reads TCP_INFO: use longhaul_tcp_info"
        );
    }
}

#[test]
fn tests_wait_for_events_not_for_time() {
    for (path, text) in files(".rs") {
        let test_file = path.contains("/tests/") || path.ends_with("tests.rs") || path.starts_with("tests/");
        if test_file && !path.starts_with("tests/tidy") {
            assert!(
                !text.contains("sleep("),
                "{path} calls sleep: wait for an event instead"
            );
            assert!(!text.contains("#[ignore"), "{path} contains an ignored test");
        }
    }
}
