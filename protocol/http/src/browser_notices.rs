//! Request fields that browsers add by themselves, with one of a few fixed values. They identify nobody, but a script could set
//! fields of the same names; with any other value they count as such ([`crate::request_context::is_own_field`]).
use http::{HeaderName, HeaderValue};

/// Page that explains an intervention of Chromium, without its number.
const INTERVENTION: &str = "<https://www.chromestatus.com/feature/";
/// Ends of the field, behind the number.
const INTERVENTION_ENDS: [&str; 2] = [">", ">; level=\"warning\""];
/// Members and parameters of the fields of attribution reporting (<https://wicg.github.io/attribution-reporting-api/>).
const ATTRIBUTION: [&str; 8] = [
    "event-source",
    "navigation-source",
    "not-event-source",
    "not-navigation-source",
    "not-trigger",
    "os",
    "trigger",
    "web",
];

/// Returns true for a field with a value that browsers write by themselves.
pub(crate) fn is_browser_notice(name: &HeaderName, value: &HeaderValue) -> bool {
    let Ok(value) = value.to_str() else {
        return false;
    };
    match name.as_str() {
        // Chromium, for a script that was inserted by `document.write` over a slow link.
        "intervention" => value.strip_prefix(INTERVENTION).is_some_and(|rest| {
            let number = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
            number.len() < rest.len() && INTERVENTION_ENDS.contains(&number)
        }),
        "attribution-reporting-eligible" | "attribution-reporting-support" => value
            .split([',', ';'])
            .all(|member| ATTRIBUTION.contains(&member.trim())),
        // Firefox and Safari, for what they fetch ahead.
        "x-moz" => value == "prefetch",
        "x-purpose" => value == "preview",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_values_of_browsers_are_notices() {
        let is_notice =
            |name, value| is_browser_notice(&HeaderName::from_static(name), &HeaderValue::from_static(value));
        let chromium = "<https://www.chromestatus.com/feature/5718547946799104>; level=\"warning\"";
        assert!(is_notice("intervention", chromium));
        assert!(is_notice(
            "intervention",
            "<https://www.chromestatus.com/feature/1>"
        ));
        assert!(is_notice(
            "attribution-reporting-eligible",
            "trigger, event-source;navigation-source"
        ));
        assert!(is_notice("attribution-reporting-support", "web"));
        assert!(is_notice("x-moz", "prefetch"));
        assert!(is_notice("x-purpose", "preview"));
        for (name, value) in [
            ("intervention", ""),
            ("intervention", "secret"),
            ("intervention", "<https://www.chromestatus.com/feature/>"),
            (
                "intervention",
                "<https://www.chromestatus.com/feature/1>; level=\"warning\", secret",
            ),
            ("intervention", "<https://www.chromestatus.com/feature/1a>"),
            ("attribution-reporting-eligible", "trigger, secret"),
            ("attribution-reporting-support", ""),
            ("x-moz", "secret"),
            ("x-purpose", "secret"),
            ("x-api-key", "prefetch"),
        ] {
            assert!(!is_notice(name, value), "{name}: {value}");
        }
    }
}
