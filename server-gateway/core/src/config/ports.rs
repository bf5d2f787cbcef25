//! Sets of ports.
use std::{fmt, ops::RangeInclusive};

/// A set of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSet {
    ranges: Vec<RangeInclusive<u16>>,
}

/// A string that is neither a port nor a range of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a port nor a range of ports; write 443 or 1024-65535")]
pub struct ParsePortsError(pub String);

impl PortSet {
    /// All ports except 25 (SMTP).
    pub fn all_but_smtp() -> Self {
        Self {
            ranges: vec![1..=24, 26..=u16::MAX],
        }
    }

    /// The UDP ports of DNS, NTP, HTTP/3, DNS over QUIC, and of everything that is not a system port.
    pub fn datagrams() -> Self {
        Self {
            ranges: vec![53..=53, 123..=123, 443..=443, 853..=853, 1024..=u16::MAX],
        }
    }

    /// Returns true if the set contains no port.
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ports of HTTP and HTTPS.
    pub fn web() -> Self {
        Self {
            ranges: vec![80..=80, 443..=443],
        }
    }

    /// Parses ports and ranges.
    ///
    /// # Errors
    /// Returns the first string that is neither.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, ParsePortsError> {
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port != 0);
            let (first, last) = (port(first)?, port(last)?);
            (first <= last).then_some(first..=last)
        };
        let ranges = texts
            .into_iter()
            .map(|text| range(text.as_ref()).ok_or_else(|| ParsePortsError(text.as_ref().to_owned())))
            .collect::<Result<_, _>>()?;
        Ok(Self { ranges })
    }

    /// Returns true if the set contains a port.
    pub fn contains(&self, port: u16) -> bool {
        self.ranges.iter().any(|range| range.contains(&port))
    }

    /// The ranges as strings.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        self.ranges
            .iter()
            .map(|range| match (range.start(), range.end()) {
                (first, last) if first == last => first.to_string(),
                (first, last) => format!("{first}-{last}"),
            })
    }
}

impl fmt::Display for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.texts().collect::<Vec<_>>().join(","))
    }
}
