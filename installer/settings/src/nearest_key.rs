//! Suggestions for misspelt names.

/// Similarity from which a suggestion helps more than it misleads; 1 is equality.
const SIMILAR: f64 = 0.7;

/// Returns the known name that was most probably meant.
pub(crate) fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (similarity(unknown, name), name))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        // The first of several that are equally similar.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, name)| name)
}

fn similarity(unknown: &str, known: &str) -> f64 {
    let plain = |name: &str| name.replace('_', "-").to_ascii_lowercase();
    let (unknown, known) = (plain(unknown), plain(known));
    let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let whole = strsim::normalized_damerau_levenshtein(&unknown, &known);
    // A key in the wrong section. Equal sections count more, so the name alone counts a little less.
    let name = 0.95 * strsim::normalized_damerau_levenshtein(&last(&unknown), &last(&known));
    whole.max(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = [
        "listen",
        "fetch.extra-ca",
        "fetch.dns",
        "guard.allow",
        "metrics.listen",
        "cache.size",
    ];

    #[test]
    fn the_nearest_name_is_suggested() {
        for (unknown, meant) in [
            ("lissten", Some("listen")),
            ("extra-ca", Some("fetch.extra-ca")),
            ("fetch.extra_ca", Some("fetch.extra-ca")),
            ("guard.alow", Some("guard.allow")),
            ("metrics.lisen", Some("metrics.listen")),
            ("Cache.Size", Some("cache.size")),
            ("metrics.deep", None),
            ("colour", None),
        ] {
            assert_eq!(nearest(unknown, KNOWN), meant, "{unknown}");
        }
    }
}
