//! The ideal one-shot page download: the lower bound for page loads.
use std::{io::Write as _, time::Duration};

use flate2::{Compression, write::GzEncoder};
use longhaul_types::{ByteCount, LinkProfile};

/// Fixed Internet part of the round trip, beyond the hop.
const INTERNET_RTT: Duration = Duration::from_millis(40);

/// Round trip plus `bytes` at the link's rate: `RTT + 8 S / R`. Without name lookup, because a proxy is
/// configured.
pub fn ideal_time(link: &LinkProfile, page: ByteCount) -> Duration {
    link.rtt + INTERNET_RTT + page / link.down
}

/// Size of an object in the ideal download: text as compressed by `gzip -9`, other bodies unchanged.
pub(super) fn transfer_size(media_type: &str, body: &[u8]) -> u64 {
    let plain = u64::try_from(body.len()).unwrap_or(u64::MAX);
    if !is_text(media_type) {
        return plain;
    }
    let mut coder = GzEncoder::new(Vec::new(), Compression::best());
    let coded = coder.write_all(body).and_then(|()| coder.finish());
    coded.map_or(plain, |coded| u64::try_from(coded.len()).unwrap_or(plain))
}

fn is_text(media_type: &str) -> bool {
    let media_type = media_type.to_ascii_lowercase();
    media_type.starts_with("text/")
        || ["javascript", "ecmascript", "json", "xml"]
            .iter()
            .any(|kind| media_type.ends_with(kind))
        || media_type == "image/svg+xml"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_plus_bytes_at_link_rate() {
        let umts: LinkProfile = "umts-384".parse().unwrap();
        // 48,000 bytes take one second at 384 kbit/s; 260 ms hop and 40 ms Internet.
        assert_eq!(
            ideal_time(&umts, ByteCount::new(48_000)),
            Duration::from_millis(1300)
        );
    }

    #[test]
    fn only_text_is_compressed() {
        let body = vec![b'a'; 10_000];
        assert_eq!(transfer_size("image/png", &body), 10_000);
        for text in [
            "text/html",
            "application/javascript",
            "image/svg+xml",
            "application/ld+json",
        ] {
            assert!(transfer_size(text, &body) < 100, "{text}");
        }
    }
}
