//! The file `hold-out` of the state directory.
//!
//! ```text
//! longhaul hold-out 1
//! link NETWORK RTT RATE KIND LAST-VISIT VISITS HELD-OUT WAY FRESH RATIO...
//! ```
//! NETWORK is the identity of the network as in the file `networks`, or `-`; RTT and RATE are the class of the link; KIND
//! is what is compared; LAST-VISIT is in seconds since 1970; WAY is that of most visits, `gateway` or `direct`; FRESH is
//! the number of comparisons since the last verdict. A RATIO is the natural logarithm of a comparison. No host is in it.
use std::{fmt::Write as _, str::SplitAsciiWhitespace};

use super::{
    comparison::{Kind, MAX_LINKS},
    link_class::LinkClass,
    record::{Link, LinkRecord, MAX_RATIOS, Records},
};

/// Maximum size of the file in bytes: more than 64 links with 64 ratios each whose numbers have all digits.
pub(super) const MAX_FILE: u64 = 256 * 1024;

const HEADER: &str = "longhaul hold-out 1";
const UNKNOWN: &str = "-";
/// Greater logarithms are those of no times.
const MAX_LOGARITHM: f64 = 50.0;

/// Errors of decoding the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HoldOutFileError {
    /// The file has another version, or it is another file.
    #[error("its first line is not `{HEADER}`")]
    Version,
    /// There are more links than an agent writes.
    #[error("line {0} exceeds the limit of links")]
    TooMany(usize),
    /// A line is malformed.
    #[error("line {0} is malformed")]
    Malformed(usize),
    /// A link is there twice.
    #[error("line {0} is about the same link as a line before")]
    Repeated(usize),
}

/// The contents of the file.
pub(super) fn encode(records: &Records) -> String {
    let mut text = format!("{HEADER}\n");
    for ((link, kind), record) in records {
        let network = link
            .network
            .map_or_else(|| UNKNOWN.to_owned(), |id| id.to_string());
        let (rtt, rate) = link.class.numbers();
        let way = if record.is_bypassed { "direct" } else { "gateway" };
        let LinkRecord {
            last_visit,
            visits,
            held_out,
            fresh,
            ratios,
            ..
        } = record;
        let kind = kind.name();
        let _infallible = write!(
            text,
            "link {network} {rtt} {rate} {kind} {last_visit} {visits} {held_out} {way} {fresh}"
        );
        for ratio in ratios {
            let _infallible = write!(text, " {ratio}");
        }
        text.push('\n');
    }
    text
}

/// Decodes the contents of the file.
///
/// # Errors
/// See [`HoldOutFileError`]. Nothing of a damaged file is used.
pub(super) fn decode(text: &str) -> Result<Records, HoldOutFileError> {
    let mut lines = text.lines().enumerate();
    if lines.next().is_none_or(|(_, first)| first != HEADER) {
        return Err(HoldOutFileError::Version);
    }
    // A file that was cut off within a line.
    if !text.ends_with('\n') {
        return Err(HoldOutFileError::Malformed(text.lines().count()));
    }
    let mut records = Records::new();
    for (at, line) in lines {
        let number = at + 1;
        if records.len() == MAX_LINKS {
            return Err(HoldOutFileError::TooMany(number));
        }
        let mut words = line.split_ascii_whitespace();
        let (key, record) = link(&mut words).ok_or(HoldOutFileError::Malformed(number))?;
        if records.insert(key, record).is_some() {
            return Err(HoldOutFileError::Repeated(number));
        }
    }
    Ok(records)
}

fn link(words: &mut SplitAsciiWhitespace<'_>) -> Option<((Link, Kind), LinkRecord)> {
    if words.next()? != "link" {
        return None;
    }
    let network = match words.next()? {
        UNKNOWN => None,
        id => Some(id.parse().ok()?),
    };
    let class = LinkClass::of_numbers(number(words)?, number(words)?)?;
    let kind = words.next()?;
    let kind = [Kind::Tunnel, Kind::Page]
        .into_iter()
        .find(|known| known.name() == kind)?;
    let (last_visit, visits, held_out) = (number(words)?, number(words)?, number(words)?);
    let is_bypassed = match words.next()? {
        "direct" => true,
        "gateway" => false,
        _ => return None,
    };
    let record = LinkRecord {
        last_visit,
        visits,
        held_out,
        is_bypassed,
        fresh: number(words)?,
        ratios: words.map(ratio).collect::<Option<_>>()?,
    };
    (record.ratios.len() <= MAX_RATIOS)
        .then_some((Link { network, class }, kind))
        .map(|key| (key, record))
}

fn number<N: std::str::FromStr>(words: &mut SplitAsciiWhitespace<'_>) -> Option<N> {
    words.next()?.parse().ok()
}

fn ratio(word: &str) -> Option<f64> {
    let ratio: f64 = word.parse().ok()?;
    // False for what is no number, too.
    (ratio.abs() <= MAX_LOGARITHM).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::networks::NetworkId;

    fn keys() -> impl Strategy<Value = (Link, Kind)> {
        let network = proptest::option::of(any::<[u8; 16]>().prop_map(NetworkId::new));
        let class =
            (1..=8_u8, 1..=4_u8).prop_filter_map("no class", |(rtt, rate)| LinkClass::of_numbers(rtt, rate));
        let kind = prop_oneof![Just(Kind::Tunnel), Just(Kind::Page)];
        (network, class, kind).prop_map(|(network, class, kind)| (Link { network, class }, kind))
    }

    fn records() -> impl Strategy<Value = LinkRecord> {
        let ratios = proptest::collection::vec_deque(-MAX_LOGARITHM..MAX_LOGARITHM, 0..=MAX_RATIOS);
        let counts = (any::<u64>(), any::<u64>(), any::<u64>(), any::<usize>());
        (counts, any::<bool>(), ratios).prop_map(
            |((last_visit, visits, held_out, fresh), is_bypassed, ratios)| LinkRecord {
                last_visit,
                visits,
                held_out,
                is_bypassed,
                fresh,
                ratios,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(records in proptest::collection::btree_map(keys(), records(), 0..=MAX_LINKS)) {
            let text = encode(&records);
            prop_assert!(text.len() as u64 <= MAX_FILE);
            prop_assert_eq!(decode(&text), Ok(records));
        }

        #[test]
        fn any_text_is_decoded_or_refused(
            lines in "(longhaul hold-out 1\n)?(link - [0-9] [0-9] (pages|tunnels) [0-9 a-z.\\-]{0,60}\n){0,6}",
        ) {
            if let Ok(records) = decode(&lines) {
                prop_assert_eq!(decode(&encode(&records)), Ok(records));
            }
        }

        /// Wherever a file was cut off, nothing wrong is read.
        #[test]
        fn a_file_that_was_cut_off_is_refused_or_lacks_whole_links(
            records in proptest::collection::btree_map(keys(), records(), 1..4),
            part in 0.0..1.0,
        ) {
            let text = encode(&records);
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place")]
            let cut = &text[..(text.len() as f64 * part) as usize];
            if let Ok(found) = decode(cut) {
                prop_assert!(found.iter().all(|(key, record)| records.get(key) == Some(record)));
            }
        }
    }

    #[test]
    fn a_damaged_file_is_refused_as_a_whole() {
        let line = "link - 4 4 pages 5 300 6 direct 0 0.5 -0.25\n";
        let file = |lines: &str| decode(&format!("{HEADER}\n{lines}"));
        assert_eq!(file(line).map(|records| records.len()), Ok(1));
        assert_eq!(decode(""), Err(HoldOutFileError::Version));
        assert_eq!(decode("longhaul hold-out 2\n"), Err(HoldOutFileError::Version));
        assert_eq!(file(&line.repeat(2)), Err(HoldOutFileError::Repeated(3)));
        for damaged in [
            "\n".to_owned(),
            "x\n".to_owned(),
            line.replace("link", "links"),
            line.replace("link -", "link 00"),
            line.replace("4 4", "4 5"),
            line.replace("4 4", "0 4"),
            line.replace("pages", "page"),
            line.replace("direct", "both"),
            line.replace("0.5", "NaN"),
            line.replace("0.5", "inf"),
            line.replace("0.5", "60"),
            line.replace("300", "-300"),
            line.replace("-0.25", &"0 ".repeat(MAX_RATIOS)),
            line.trim_end().to_owned(),
        ] {
            let found = file(&format!("{line}{damaged}"));
            assert_eq!(found, Err(HoldOutFileError::Malformed(3)), "{damaged}");
        }
    }
}
