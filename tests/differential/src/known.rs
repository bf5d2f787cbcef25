//! Differences that stay, each with its reason.
mod fields;
mod http2;
mod messages;
mod sockets;

use crate::{Case, Mode, Scheme, judge::Difference};

/// A difference that stays.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// What differs: aspects, or the beginnings of aspects with `*`.
    pub aspects: &'static [&'static str],
    /// Beginnings of the kinds of mutation for which it differs, with `+` between those that come together; none for all.
    pub kinds: &'static [&'static str],
    /// Only if it is loaded in one of these ways; none for all.
    pub modes: &'static [Mode],
    /// Only over this scheme.
    pub scheme: Option<Scheme>,
    /// How the values differ.
    pub seen: Seen,
    /// What a page or a script sees.
    pub what: &'static str,
    /// Why it stays.
    pub reason: &'static str,
}

/// How two values differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// In any way.
    Anything,
    /// It is there only directly.
    Gone,
    /// It is there only through Longhaul.
    Added,
    /// It loads only directly.
    Refused,
    /// It loads only through Longhaul.
    Lenient,
    /// A WebSocket fails only directly, and waits through Longhaul.
    Waits,
    /// A WebSocket closes cleanly only through Longhaul.
    Cleanly,
    /// Through Longhaul there are more events, and perhaps no failure at their end.
    More,
    /// Events are missing on one way.
    Fewer,
    /// A WebSocket closes cleanly on one way only.
    OtherEnd,
    /// Through Longhaul it is a phrase of the standard, or empty.
    Phrase,
    /// Through Longhaul it is empty.
    NoPhrase,
    /// Through Longhaul it has spaces for control characters.
    Spaces,
    /// Through Longhaul its control characters are percent-encoded; those at the ends of a URL may be missing.
    Encoded,
}

impl Seen {
    fn is(self, difference: &Difference) -> bool {
        const NOTHING: &str = "nothing";
        let Difference {
            aspect,
            direct,
            through,
        } = difference;
        // The events of a WebSocket tell its outcome.
        let opens = |events: &str| events.starts_with("[\"open");
        let errs = |events: &str| events.starts_with("[\"error");
        let fails = |outcome: &str| {
            ["failed", "broken", "hangs"]
                .iter()
                .any(|word| outcome.starts_with(word))
        };
        match self {
            Self::Anything => true,
            Self::Gone => through == NOTHING,
            Self::Added => direct == NOTHING,
            Self::Refused => direct == "whole" && fails(through) || opens(direct) && errs(through),
            Self::Lenient => fails(direct) && through.starts_with("whole") || errs(direct) && opens(through),
            Self::Waits => errs(direct) && through.starts_with("[\"still 0"),
            Self::Cleanly => direct.replace(" false\"]", " true\"]") == *through,
            Self::More => contains_all(&events(through), &without_failure(events(direct))),
            Self::Fewer => {
                let (one, other) = (events(direct), events(through));
                opens(direct) == opens(through) && (contains_all(&one, &other) || contains_all(&other, &one))
            }
            Self::OtherEnd => without_end(events(direct)) == without_end(events(through)),
            Self::Phrase => through
                .bytes()
                .all(|byte| byte.is_ascii_alphabetic() || b" -\"'".contains(&byte)),
            Self::NoPhrase => through == "\"\"",
            Self::Spaces => spaced(direct) == spaced(through),
            Self::Encoded => {
                let (direct, through) = (string(direct), string(through));
                let url = direct.trim_matches(|c| c <= ' ');
                encoded(&direct) == through || aspect == "fields.location" && encoded(url) == through
            }
        }
    }
}

/// The events of a WebSocket.
fn events(text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Events without those of a connection that was lost.
fn without_failure(mut events: Vec<String>) -> Vec<String> {
    events.retain(|event| event != "error" && event != "close 1006  false");
    events
}

/// Events without those at the end of a connection.
fn without_end(mut events: Vec<String>) -> Vec<String> {
    events.retain(|event| event != "error" && !event.starts_with("close "));
    events
}

/// True if a list of events contains all events of another one, in their order.
fn contains_all(all: &[String], some: &[String]) -> bool {
    let mut all = all.iter();
    some.iter().all(|event| all.any(|other| other == event))
}

/// A string that was JSON.
fn string(value: &str) -> String {
    serde_json::from_str(value).unwrap_or_default()
}

/// The values of a field's lines, as JSON, with spaces for their control characters, and none around each of them.
fn spaced(value: &str) -> String {
    let spaced = string(value).replace(|c: char| c.is_ascii_control(), " ");
    spaced.split(',').map(str::trim).collect::<Vec<_>>().join(",")
}

/// A text with its control characters percent-encoded.
fn encoded(text: &str) -> String {
    let encoded = |c: char| match c.is_ascii_control() {
        true => format!("%{:02X}", u32::from(c)),
        false => c.to_string(),
    };
    text.chars().map(encoded).collect()
}
/// All differences that stay; `docs/COMPATIBILITY.md` lists the same.
pub fn known() -> impl Iterator<Item = &'static Known> {
    [fields::FIELDS, messages::MESSAGES, http2::HTTP2, sockets::SOCKETS]
        .into_iter()
        .flatten()
}

/// What most entries have in common.
const ANY: Known = Known {
    aspects: &[],
    kinds: &[],
    modes: &[],
    scheme: None,
    seen: Seen::Anything,
    what: "",
    reason: "",
};

/// Returns true if a difference stays.
pub(crate) fn is_known(case: &Case, scheme: Scheme, difference: &Difference) -> bool {
    let of_kind = |known: &Known| {
        let kinds = case.kinds();
        let has = |start: &str| kinds.iter().any(|kind| kind.starts_with(start));
        known.kinds.is_empty() || known.kinds.iter().any(|starts| starts.split('+').all(has))
    };
    let is_aspect = |aspect: &&str| match aspect.strip_suffix('*') {
        Some(start) => difference.aspect.starts_with(start),
        None => difference.aspect == *aspect,
    };
    known().any(|known| {
        known.aspects.iter().any(is_aspect)
            && of_kind(known)
            && (known.modes.is_empty() || known.modes.contains(&case.mode))
            && known.scheme.is_none_or(|only| only == scheme)
            && known.seen.is(difference)
    })
}

/// Returns true if a difference for a program stays.
pub(crate) fn is_known_for(case: &Case, difference: &Difference) -> bool {
    // Programs read malformed heads and chunks in ways of their own. Through Longhaul they get what browsers get, and the
    // browser is the judge of these.
    const MALFORMED: &[&str] = &[
        "status/",
        "lead/",
        "interim/",
        "field/",
        "cookie/",
        "coding/control",
        "connection/",
        "type/",
        "transfer/",
        "chunks/",
        "form/",
        "length/",
        "redirect/control",
        "redirect/delete",
        "redirect/folded",
        "redirect/space-before-colon",
        "whole/chunked-1.0",
        "whole/crlf-then-line-feed",
        "whole/http",
        "whole/line-feed-then-crlf",
        "whole/only-",
        "whole/redirect-open",
        "whole/status-line-open",
        "whole/tls-alert",
    ];
    let malformed = case
        .kinds()
        .iter()
        .any(|kind| MALFORMED.iter().any(|start| kind.starts_with(start)));
    // Java takes the host for a proxy (RFC 2616 section 10.3.6). What comes of it depends on whether it has one.
    let is_taken_for_proxy =
        difference.aspect == "outcome" && case.script().bytes().starts_with(b"HTTP/1.1 305 ");
    malformed || is_taken_for_proxy || is_known(case, Scheme::Http, difference)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Change, Mutation};

    fn difference(direct: &str, through: &str) -> Difference {
        Difference {
            aspect: "outcome".to_owned(),
            direct: direct.to_owned(),
            through: through.to_owned(),
        }
    }

    #[test]
    fn an_entry_holds_in_one_direction() {
        let refused = difference("whole", "failed longhaul; error=http_protocol_error");
        let lenient = difference("broken", "whole ");
        assert!(Seen::Refused.is(&refused) && !Seen::Lenient.is(&refused));
        assert!(Seen::Lenient.is(&lenient) && !Seen::Refused.is(&lenient));
        let opened = difference("[\"error\",\"close 1006  false\"]", "[\"open  \"]");
        assert!(Seen::Lenient.is(&opened) && !Seen::Refused.is(&opened));
        assert!(!Seen::Refused.is(&difference("whole", "mistake ")));
    }

    #[test]
    fn values_decide() {
        assert!(
            Seen::Gone.is(&difference("\"1\"", "nothing")) && !Seen::Gone.is(&difference("\"1\"", "\"2\""))
        );
        assert!(Seen::Spaces.is(&difference("\"a\\u0001b\"", "\"a b\"")));
        assert!(!Seen::Spaces.is(&difference("\"a\\u0001b\"", "\"ab\"")));
        assert!(Seen::Spaces.is(&difference("\"a\\u0001, b\"", "\"a, b\"")));
        assert!(Seen::Encoded.is(&difference("\"a\\u0001\"", "\"a%01\"")));
        let location = Difference {
            aspect: "fields.location".to_owned(),
            ..difference("\"/a\u{7f}b\\u0001\"", "\"/a%7Fb\"")
        };
        assert!(Seen::Encoded.is(&location));
        assert!(!Seen::Encoded.is(&difference("\"a\\u0001\"", "\"a\"")));
        assert!(!Seen::Encoded.is(&difference("\"a\\u0001b\"", "\"ab\"")));
        assert!(Seen::Phrase.is(&difference("\"Moved\"", "\"Moved Permanently\"")));
        assert!(!Seen::Phrase.is(&difference("\"Moved\"", "\"Moved 2\"")));
    }

    #[test]
    fn events_may_be_lost_on_one_way() {
        let lost = difference(
            r#"["open  ","close 1006  false"]"#,
            r#"["open  ","text a","close 1000  true"]"#,
        );
        assert!(Seen::More.is(&lost) && !Seen::Fewer.is(&lost));
        let fewer = difference(r#"["open  ","text a","error"]"#, r#"["open  ","error"]"#);
        assert!(Seen::Fewer.is(&fewer) && !Seen::More.is(&fewer));
        let more = difference(r#"["open  ","error"]"#, r#"["open  ","text a","error"]"#);
        assert!(Seen::Fewer.is(&more) && Seen::More.is(&more));
        let ends = difference(
            r#"["open  ","text a","close 1000 x true"]"#,
            r#"["open  ","text a","error","close 1006  false"]"#,
        );
        assert!(Seen::OtherEnd.is(&ends) && !Seen::Fewer.is(&ends));
        assert!(!Seen::OtherEnd.is(&fewer));
    }

    #[test]
    fn kinds_may_have_to_come_together() {
        let refused = difference("whole", "failed longhaul; error=http_protocol_error");
        let is_known_of = |kinds: &[&'static str]| {
            let mutations = kinds.iter().copied().map(|kind| Mutation {
                kind,
                change: Change::Fields(Vec::new()),
            });
            let case = Case {
                mode: Mode::Fetch,
                mutations: mutations.collect(),
                ..Case::plain_socket()
            };
            is_known(&case, Scheme::Http, &refused)
        };
        assert!(is_known_of(&["field/space-before-name", "transfer/comma-behind"]));
        assert!(!is_known_of(&["transfer/comma-behind"]) && !is_known_of(&["field/space-before-name"]));
    }
}
