//! The file `networks` of the state directory.
//!
//! ```text
//! longhaul networks 1
//! network ID LAST-SEEN FAMILY
//! port PORT
//! udp FAILED...
//! worse FOUND
//! quic WORKED
//! session DOWN-LOW DOWN-HIGH UP-LOW UP-HIGH RTT LOSS
//! ```
//! A line `network` is followed by the gateway's UDP port that answered last, the times at which UDP failed, the time at which
//! UDP carried less than another carrier and the time at which QUIC worked in its place, if there are any, and by its
//! sessions, the oldest first. Times are
//! seconds since 1970, rates bit/s,
//! round-trip times microseconds, losses parts per million; the family is 4 or 6; `-` stands for an unknown value.
use std::{fmt::Write as _, str::SplitAsciiWhitespace, time::Duration};

use longhaul_types::BitRate;

use super::{
    known::{MAX_NETWORKS, Networks},
    network_id::NetworkId,
    record::{FAILURES, Family, MAX_SESSIONS, NetworkRecord, RateRange, SessionRecord},
};

/// Maximum size of the file in bytes: twice that of 64 networks with 8 sessions each whose numbers have all digits.
pub const MAX_NETWORKS_FILE: u64 = 128 * 1024;

const HEADER: &str = "longhaul networks 1";
const UNKNOWN: &str = "-";

/// Errors of decoding the file of the networks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworksFileError {
    /// The file has another version, or it is another file.
    #[error("its first line is not `{HEADER}`")]
    Version,
    /// There are more networks, or more sessions of one network, than an agent writes.
    #[error("line {0} exceeds the limit of networks or sessions")]
    TooMany(usize),
    /// A line is malformed.
    #[error("line {0} is malformed")]
    Malformed(usize),
}

impl Networks {
    /// The contents of the file.
    pub fn encode(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for (id, record) in self.iter() {
            let family = match record.family {
                Some(Family::V4) => "4",
                Some(Family::V6) => "6",
                None => UNKNOWN,
            };
            let _infallible = writeln!(text, "network {id} {} {family}", record.last_seen);
            if let Some(port) = record.port {
                let _infallible = writeln!(text, "port {port}");
            }
            if !record.udp_failures.is_empty() {
                text.push_str("udp");
                for at in &record.udp_failures {
                    let _infallible = write!(text, " {at}");
                }
                text.push('\n');
            }
            if let Some(at) = record.udp_worse {
                let _infallible = writeln!(text, "worse {at}");
            }
            if let Some(at) = record.quic_worked {
                let _infallible = writeln!(text, "quic {at}");
            }
            for session in record.sessions() {
                let SessionRecord {
                    down,
                    up,
                    rtt,
                    loss_ppm,
                } = session;
                let (low, high) = (down.low.as_bps(), down.high.as_bps());
                let _infallible = write!(text, "session {low} {high} ");
                let _infallible = match up {
                    Some(up) => write!(text, "{} {}", up.low.as_bps(), up.high.as_bps()),
                    None => write!(text, "{UNKNOWN} {UNKNOWN}"),
                };
                let _infallible = writeln!(text, " {} {loss_ppm}", rtt.as_micros());
            }
        }
        text
    }

    /// Decodes the contents of the file.
    ///
    /// # Errors
    /// See [`NetworksFileError`]. Nothing of a damaged file is used.
    pub fn decode(text: &str) -> Result<Self, NetworksFileError> {
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, first)| first != HEADER) {
            return Err(NetworksFileError::Version);
        }
        let mut networks: Vec<(NetworkId, NetworkRecord)> = Vec::new();
        for (at, line) in lines {
            let number = at + 1;
            let malformed = || NetworksFileError::Malformed(number);
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("network") => {
                    if networks.len() == MAX_NETWORKS {
                        return Err(NetworksFileError::TooMany(number));
                    }
                    networks.push(network(&mut words).ok_or_else(malformed)?);
                }
                Some("session") => {
                    let (_, record) = networks.last_mut().ok_or_else(malformed)?;
                    if record.sessions.len() == MAX_SESSIONS {
                        return Err(NetworksFileError::TooMany(number));
                    }
                    record.push(session(&mut words).ok_or_else(malformed)?);
                }
                Some("port") => {
                    let (_, record) = networks.last_mut().ok_or_else(malformed)?;
                    port(&mut words, record).ok_or_else(malformed)?;
                }
                Some("udp") => {
                    let (_, record) = networks.last_mut().ok_or_else(malformed)?;
                    udp_failures(&mut words, record).ok_or_else(malformed)?;
                }
                Some("worse") => {
                    let (_, record) = networks.last_mut().ok_or_else(malformed)?;
                    let is_first = record.udp_worse.is_none() && record.sessions.is_empty();
                    record.udp_worse = Some(time(&mut words).filter(|_| is_first).ok_or_else(malformed)?);
                }
                Some("quic") => {
                    let (_, record) = networks.last_mut().ok_or_else(malformed)?;
                    let is_first = record.quic_worked.is_none() && record.sessions.is_empty();
                    record.quic_worked = Some(time(&mut words).filter(|_| is_first).ok_or_else(malformed)?);
                }
                Some(_) | None => return Err(malformed()),
            }
            if words.next().is_some() {
                return Err(malformed());
            }
        }
        let read = networks.len();
        let networks: Self = networks.into_iter().collect();
        if networks.iter().len() == read {
            Ok(networks)
        } else {
            // A network is there twice.
            Err(NetworksFileError::Malformed(1))
        }
    }
}

fn network(words: &mut SplitAsciiWhitespace<'_>) -> Option<(NetworkId, NetworkRecord)> {
    let id = words.next()?.parse().ok()?;
    let last_seen = words.next()?.parse().ok()?;
    let family = match words.next()? {
        "4" => Some(Family::V4),
        "6" => Some(Family::V6),
        UNKNOWN => None,
        _ => return None,
    };
    Some((id, NetworkRecord::new(last_seen, family, [])))
}

/// Reads the failures of UDP of a network that has none yet.
fn udp_failures(words: &mut SplitAsciiWhitespace<'_>, record: &mut NetworkRecord) -> Option<()> {
    if !record.udp_failures.is_empty() || !record.sessions.is_empty() {
        return None;
    }
    for _ in 0..FAILURES {
        match words.next() {
            Some(word) => record.push_udp_failure(word.parse().ok()?),
            None => break,
        }
    }
    (!record.udp_failures.is_empty()).then_some(())
}

/// Reads the port of a network that has none yet.
fn port(words: &mut SplitAsciiWhitespace<'_>, record: &mut NetworkRecord) -> Option<()> {
    let port: u16 = words.next()?.parse().ok()?;
    let is_first = record.port.replace(port).is_none();
    (is_first && port != 0 && record.sessions.is_empty()).then_some(())
}

fn time(words: &mut SplitAsciiWhitespace<'_>) -> Option<u64> {
    words.next()?.parse().ok()
}

fn session(words: &mut SplitAsciiWhitespace<'_>) -> Option<SessionRecord> {
    let down = range(words)??;
    let up = range(words)?;
    let rtt: u64 = words.next()?.parse().ok()?;
    let loss_ppm: u32 = words.next()?.parse().ok()?;
    (rtt > 0 && loss_ppm <= 1_000_000).then_some(SessionRecord {
        down,
        up,
        rtt: Duration::from_micros(rtt),
        loss_ppm,
    })
}

/// Reads a range; `Some(None)` if it is unknown, `None` if it is malformed.
fn range(words: &mut SplitAsciiWhitespace<'_>) -> Option<Option<RateRange>> {
    match (words.next()?, words.next()?) {
        (UNKNOWN, UNKNOWN) => Some(None),
        (low, high) => {
            let low = BitRate::bps(low.parse().ok()?);
            let high = BitRate::bps(high.parse().ok()?);
            RateRange::new(low, high).map(Some)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = RateRange> {
        (1..u64::MAX, any::<u64>()).prop_filter_map("an empty range", |(low, more)| {
            RateRange::new(BitRate::bps(low), BitRate::bps(low.saturating_add(more)))
        })
    }

    fn sessions() -> impl Strategy<Value = SessionRecord> {
        let rtt = (1..u64::MAX).prop_map(Duration::from_micros);
        let parts = (ranges(), proptest::option::of(ranges()), rtt, 0..=1_000_000_u32);
        parts.prop_map(|(down, up, rtt, loss_ppm)| SessionRecord {
            down,
            up,
            rtt,
            loss_ppm,
        })
    }

    fn records() -> impl Strategy<Value = NetworkRecord> {
        let family = prop_oneof![Just(None), Just(Some(Family::V4)), Just(Some(Family::V6))];
        let sessions = proptest::collection::vec(sessions(), 0..=MAX_SESSIONS);
        let failures = proptest::collection::vec(any::<u64>(), 0..=FAILURES);
        let times = (
            proptest::option::of(any::<u64>()),
            proptest::option::of(any::<u64>()),
        );
        let port = proptest::option::of(1..=u16::MAX);
        let parts = (any::<u64>(), family, port, sessions, failures, times);
        parts.prop_map(|(last_seen, family, port, sessions, failures, (worse, quic))| {
            let mut record = NetworkRecord::new(last_seen, family, sessions);
            failures.into_iter().for_each(|at| record.push_udp_failure(at));
            record.port = port;
            record.udp_worse = worse;
            record.quic_worked = quic;
            record
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            networks in proptest::collection::btree_map(any::<[u8; 16]>(), records(), 0..=MAX_NETWORKS)
        ) {
            let ids = networks.into_iter().map(|(id, record)| (NetworkId::new(id), record));
            let networks: Networks = ids.collect();
            let text = networks.encode();
            prop_assert!(text.len() as u64 <= MAX_NETWORKS_FILE);
            prop_assert_eq!(Networks::decode(&text), Ok(networks));
        }

        #[test]
        fn any_text_is_decoded_or_refused(lines in "(longhaul networks 1\n)?([a-z0-9 \\-]{0,60}\n){0,6}") {
            if let Ok(networks) = Networks::decode(&lines) {
                prop_assert_eq!(Networks::decode(&networks.encode()), Ok(networks));
            }
        }
    }

    #[test]
    fn a_damaged_file_is_refused_as_a_whole() {
        let id = "00112233445566778899aabbccddeeff";
        let file = |lines: &str| Networks::decode(&format!("{HEADER}\n{lines}"));
        assert_eq!(file("").map(|networks| networks.iter().len()), Ok(0));
        assert_eq!(
            Networks::decode("longhaul networks 2\n"),
            Err(NetworksFileError::Version)
        );
        assert_eq!(Networks::decode(""), Err(NetworksFileError::Version));
        let network = format!("network {id} 5 4\n");
        assert!(file(&network).is_ok());
        for lines in [
            "session 1 2 - - 5 0\n".to_owned(),
            format!("network {id}0 5 4\n"),
            format!("network {id} 5 5\n"),
            format!("network {id} 5 4 x\n"),
            format!("{network}{network}"),
            "udp 5\n".to_owned(),
            "port 5\n".to_owned(),
            format!("{network}port 0\n"),
            format!("{network}port 65536\n"),
            format!("{network}port 1 2\n"),
            format!("{network}port 1\nport 2\n"),
            format!("{network}session 1 2 - - 5 0\nport 1\n"),
            "quic 5\n".to_owned(),
            format!("{network}quic\n"),
            format!("{network}quic 1 2\n"),
            format!("{network}quic 1\nquic 2\n"),
            format!("{network}udp\n"),
            format!("{network}udp 1 2 3\n"),
            format!("{network}udp 1\nudp 2\n"),
            format!("{network}session 1 2 - - 5 0\nudp 2\n"),
            "worse 5\n".to_owned(),
            format!("{network}worse\n"),
            format!("{network}worse 1 2\n"),
            format!("{network}worse 1\nworse 2\n"),
            format!("{network}session 1 2 - - 5 0\nworse 2\n"),
            format!("{network}session 0 2 - - 5 0\n"),
            format!("{network}session 3 2 - - 5 0\n"),
            format!("{network}session 1 2 - 4 5 0\n"),
            format!("{network}session 1 2 - - 0 0\n"),
            format!("{network}session 1 2 - - 5 1000001\n"),
            format!("{network}\n"),
            format!("{network}session 1 2 - -"),
        ] {
            assert!(
                matches!(file(&lines), Err(NetworksFileError::Malformed(_))),
                "{lines}"
            );
        }
        let session = "session 1 2 - - 5 0\n";
        let many = format!("{network}{}", session.repeat(MAX_SESSIONS + 1));
        assert_eq!(file(&many), Err(NetworksFileError::TooMany(MAX_SESSIONS + 3)));
    }
}
