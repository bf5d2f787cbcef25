//! Versions of the programs.

/// Digits of a commit that are shown: enough to name it among millions.
const COMMIT_DIGITS: usize = 12;

/// The version that a program prints: `0.2.0 (0123456789ab)`, or `0.2.0` if the build did not know the commit.
///
/// `commit` is what `LONGHAUL_COMMIT` was during the build of the program: the commit in hexadecimal, with `-dirty` if the
/// source was changed since. It is not read from the repository, so that builds of a commit are equal wherever
/// they are made.
pub fn version_text(version: &str, commit: Option<&str>) -> String {
    let Some(commit) = commit.filter(|commit| !commit.is_empty()) else {
        return version.to_owned();
    };
    let (digits, changed) = commit.split_at(commit.find('-').unwrap_or(commit.len()));
    let digits: String = digits.chars().take(COMMIT_DIGITS).collect();
    format!("{version} ({digits}{changed})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_has_the_commit_if_it_is_known() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(version_text("0.2.0", Some(commit)), "0.2.0 (0123456789ab)");
        let changed = format!("{commit}-dirty");
        assert_eq!(
            version_text("0.2.0", Some(&changed)),
            "0.2.0 (0123456789ab-dirty)"
        );
        assert_eq!(version_text("0.2.0", None), "0.2.0");
        assert_eq!(version_text("0.2.0", Some("")), "0.2.0");
    }
}
