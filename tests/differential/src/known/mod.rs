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
    /// Beginnings of the kinds of mutation for which it differs; none for all.
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
    /// Through Longhaul there are more events.
    More,
    /// Through Longhaul there are fewer events.
    Fewer,
    /// Through Longhaul it is a phrase of the standard, or empty.
    Phrase,
    /// Through Longhaul it is empty.
    NoPhrase,
    /// Through Longhaul it has spaces for control characters.
    Spaces,
}

impl Seen {
    fn is(self, Difference { direct, through, .. }: &Difference) -> bool {
        const NOTHING: &str = "nothing";
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
            Self::More => contains_events(through, direct),
            Self::Fewer => opens(direct) == opens(through) && contains_events(direct, through),
            Self::Phrase => through
                .bytes()
                .all(|byte| byte.is_ascii_alphabetic() || b" -\"'".contains(&byte)),
            Self::NoPhrase => through == "\"\"",
            Self::Spaces => spaced(direct) == spaced(through),
        }
    }
}

/// True if a list of events contains all events of another one, in their order.
fn contains_events(all: &str, some: &str) -> bool {
    let events = |text: &str| serde_json::from_str::<Vec<String>>(text).unwrap_or_default();
    let mut all = events(all).into_iter();
    events(some)
        .into_iter()
        .all(|event| all.any(|other| other == event))
}

/// A value as JSON with spaces for its control characters, and none around it.
fn spaced(value: &str) -> String {
    let text: String = serde_json::from_str(value).unwrap_or_default();
    let spaced = text.replace(|c: char| c.is_ascii_control(), " ");
    spaced.trim().to_owned()
}

/// What shows the content of a response.
const CONTENT: &[&str] = &[
    "body", "length", "text", "markup", "title", "mode", "ran", "rules", "size",
];

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
        let mut kinds = case.kinds().into_iter();
        known.kinds.is_empty() || kinds.any(|kind| known.kinds.iter().any(|start| kind.starts_with(start)))
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
        "connection/",
        "type/",
        "transfer/",
        "chunks/",
        "form/",
        "length/",
    ];
    let malformed = case
        .kinds()
        .iter()
        .any(|kind| MALFORMED.iter().any(|start| kind.starts_with(start)));
    malformed || is_known(case, Scheme::Http, difference)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(Seen::Phrase.is(&difference("\"Moved\"", "\"Moved Permanently\"")));
        assert!(!Seen::Phrase.is(&difference("\"Moved\"", "\"Moved 2\"")));
    }
}
