//! Environment of a measurement.
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use longhaul_report::Environment;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// The source from which this program was built.
#[derive(Clone, Copy, Debug)]
pub enum BuildSource {
    /// `LONGHAUL_COMMIT` of the build.
    Commit(&'static str),
    /// The folder of the source, of a build that was told no commit.
    Folder(&'static str),
}

impl BuildSource {
    /// The commit that the build was told.
    pub const fn commit_of_build(self) -> Option<&'static str> {
        match self {
            Self::Commit(commit) => Some(commit),
            Self::Folder(_) => None,
        }
    }

    /// The commit of the build, or else the current commit of the checkout; empty if neither is known.
    fn commit(self) -> String {
        let folder = match self {
            Self::Commit(commit) => return commit.to_owned(),
            Self::Folder(folder) if Path::new(folder).exists() => folder,
            Self::Folder(_) => return String::new(),
        };
        let commit = answer("git", &["-C", folder, "rev-parse", "HEAD"]).unwrap_or_default();
        let changed = answer(
            "git",
            &["-C", folder, "status", "--porcelain", "--untracked-files=no"],
        );
        if commit.is_empty() || changed.is_none() {
            return commit;
        }
        format!("{commit} with changes")
    }
}

/// Determines the environment: this machine and the programs involved.
///
/// Unknown values are left empty: a benchmark must not fail because of a version number.
pub fn environment(source: BuildSource, seed: u64, bin_dir: &Path) -> Environment {
    Environment {
        cpu: cpu(),
        kernel: first_line("/proc/sys/kernel/osrelease"),
        versions: versions(bin_dir),
        commit: source.commit(),
        seed,
        date: now(),
    }
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{model}, {cores} cores")
}

fn versions(bin_dir: &Path) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    let ours = |name: &str| bin_dir.join(name).display().to_string();
    let asked = [
        ("longhaul-agent", ours("longhaul-agent"), "--version"),
        ("longhaul-gateway", ours("longhaul-gateway"), "--version"),
        ("chromium", "chromium".to_owned(), "--version"),
        ("squid", squid(), "-v"),
        ("ziproxy", "ziproxy".to_owned(), "--help"),
    ];
    for (name, program, flag) in asked {
        if let Some(line) = answer(&program, &[flag]) {
            versions.insert(name.to_owned(), line);
        }
    }
    versions.insert("longhaul-bench".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let congestion = first_line("/proc/sys/net/ipv4/tcp_congestion_control");
    versions.insert("kernel TCP default congestion control".to_owned(), congestion);
    versions
}

/// Returns the version of Squid, which Debian installs in a folder of root's PATH only.
fn squid() -> String {
    crate::worker::programs::find("squid")
        .map_or_else(|| "squid".to_owned(), |path| path.display().to_string())
}

/// Returns the first line that a program prints.
fn answer(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// Returns the current time as RFC 3339 in UTC, without fractions.
fn now() -> String {
    let now = OffsetDateTime::now_utc();
    let whole = now.replace_nanosecond(0).unwrap_or(now);
    whole.format(&Rfc3339).unwrap_or_default()
}
