//! The release of the kernel, as far as the size of its `struct tcp_info` depends on it.
use std::sync::LazyLock;

use nix::sys::utsname::uname;

/// The first release that returns all fields up to `tcpi_min_rtt`.
const FIRST: (u32, u32) = (4, 6);

static RETURNS_ALL_FIELDS: LazyLock<bool> = LazyLock::new(|| {
    let system = uname().ok();
    let release = system.as_ref().and_then(|system| system.release().to_str());
    release.and_then(number).is_some_and(|release| release >= FIRST)
});

/// Returns true if this kernel returns as many bytes as [`crate::tcp_info`] reads. nix panics if it returns fewer, so it has to
/// be known before.
pub(crate) fn returns_all_fields() -> bool {
    *RETURNS_ALL_FIELDS
}

/// The first two numbers of a release (uname(2)).
fn number(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        let is_enough = |release: &str| number(release).is_some_and(|release| release >= FIRST);
        for release in ["4.6.0", "4.10-rc1", "5.4.0-150-generic", "6.18.44"] {
            assert!(is_enough(release), "{release}");
        }
        for release in ["4.5.7", "3.10.0-1160.el7.x86_64", "2.6", "4", "", "unknown"] {
            assert!(!is_enough(release), "{release}");
        }
    }

    #[test]
    fn the_kernel_of_the_tests_returns_all_fields() {
        assert!(returns_all_fields());
    }
}
