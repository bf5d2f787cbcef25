//! Lookups in the Public Suffix List.
//!
//! The crate `psl` is the list as generic functions of 100,000 lines, which are compiled in the crate that calls them. Here
//! they are compiled once and not with each change of the HTTP rules, and have an opt-level of their own: a lookup
//! compares a few labels, at any level.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Returns the registrable domain of a host name in lower case, such as `example.co.uk` of `www.example.co.uk`; `None` for
/// a public suffix.
#[inline(never)]
pub fn registrable_domain(name: &str) -> Option<&str> {
    psl::domain_str(name)
}

/// Returns the public suffix of a host name in lower case, such as `co.uk` of `www.example.co.uk`.
#[inline(never)]
pub fn public_suffix(name: &str) -> Option<&str> {
    psl::suffix_str(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_divided_at_the_public_suffix() {
        for (name, domain, suffix) in [
            ("www.example.co.uk", Some("example.co.uk"), Some("co.uk")),
            ("example.org", Some("example.org"), Some("org")),
            ("co.uk", None, Some("co.uk")),
            ("b.kawasaki.jp", None, Some("b.kawasaki.jp")),
            ("a.b.kawasaki.jp", Some("a.b.kawasaki.jp"), Some("b.kawasaki.jp")),
            (
                "a.city.kawasaki.jp",
                Some("city.kawasaki.jp"),
                Some("kawasaki.jp"),
            ),
            ("", None, None),
        ] {
            assert_eq!(registrable_domain(name), domain, "{name}");
            assert_eq!(public_suffix(name), suffix, "{name}");
        }
    }
}
