//! Number of bytes that an origin sent for a response.
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use http::{HeaderMap, StatusCode, Version, header};
use longhaul_cache::OriginBytes;

/// Estimated bytes of a head over HTTP/2: the header of its frame ...
const H2_FRAME: u64 = 9;
/// ... and of each field the index of its name and the length of its value. HPACK (RFC 7541) encodes the
/// value in about three quarters of its length.
const H2_FIELD: u64 = 2;

/// Bytes that an origin sent for a response. Clones count together; the numbers grow while the body arrives.
#[derive(Clone, Debug, Default)]
pub struct OriginSize {
    head: u64,
    /// `None` if unknown.
    body: Option<Arc<BodySize>>,
    is_coded: bool,
}

#[derive(Debug, Default)]
struct BodySize {
    /// Bytes from the origin, with content codings.
    coded: AtomicU64,
    /// The same bytes without content codings.
    decoded: AtomicU64,
}

impl OriginSize {
    /// No bytes: the response is not an origin's.
    pub fn none() -> Self {
        Self {
            head: 0,
            body: Some(Arc::default()),
            is_coded: false,
        }
    }

    /// A response whose head has arrived.
    pub(super) fn of_head(version: Version, status: StatusCode, fields: &HeaderMap) -> Self {
        Self {
            head: head_size(version, status, fields),
            body: Some(Arc::default()),
            is_coded: fields.contains_key(header::CONTENT_ENCODING),
        }
    }

    /// A stored response with a body of `length` decoded bytes.
    pub(super) fn of_stored(bytes: Option<OriginBytes>, length: u64) -> Self {
        let Some(OriginBytes { head, body }) = bytes else {
            return Self::default();
        };
        let is_coded = body != length;
        let body = BodySize {
            coded: AtomicU64::new(body),
            decoded: AtomicU64::new(length),
        };
        Self {
            head,
            body: Some(Arc::new(body)),
            is_coded,
        }
    }

    /// Returns true if the origin coded the body; false if that is unknown.
    pub(super) const fn is_coded(&self) -> bool {
        self.is_coded
    }

    /// Counts bytes of the body from the origin.
    pub(super) fn received(&self, coded: usize) {
        if let Some(body) = &self.body {
            body.coded.fetch_add(coded as u64, Relaxed);
        }
    }

    /// Counts decoded bytes of the body.
    pub(super) fn decoded(&self, bytes: usize) {
        if let Some(body) = &self.body {
            body.decoded.fetch_add(bytes as u64, Relaxed);
        }
    }

    /// The bytes for the record of a stored response; `None` if they are unknown.
    pub(super) fn to_stored(&self) -> Option<OriginBytes> {
        Some(OriginBytes {
            head: self.head,
            body: self.body()?,
        })
    }

    /// Bytes of the head.
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// Bytes of the body so far; `None` if they are unknown.
    pub fn body(&self) -> Option<u64> {
        Some(self.body.as_ref()?.coded.load(Relaxed))
    }

    /// The part of the body's bytes that corresponds to the first `decoded` bytes without content codings;
    /// `None` if it is unknown.
    pub fn part(&self, decoded: u64) -> Option<u64> {
        let body = self.body.as_ref()?;
        let (coded, all) = (body.coded.load(Relaxed), body.decoded.load(Relaxed));
        if decoded >= all {
            return Some(coded);
        }
        let part = u128::from(coded) * u128::from(decoded) / u128::from(all);
        Some(u64::try_from(part).unwrap_or(coded))
    }
}

fn head_size(version: Version, status: StatusCode, fields: &HeaderMap) -> u64 {
    let lengths = fields
        .iter()
        .map(|(name, value)| (name.as_str().len(), value.len()));
    if version >= Version::HTTP_2 {
        return lengths.fold(H2_FRAME + 1, |size, (_, value)| {
            size + H2_FIELD + value as u64 * 3 / 4
        });
    }
    // "HTTP/1.1 200 OK", the separators of the fields, and the line ends.
    let reason = status.canonical_reason().unwrap_or_default().len();
    let status_line = "HTTP/1.1 200 \r\n".len() + reason;
    lengths.fold((status_line + "\r\n".len()) as u64, |size, (name, value)| {
        size + (name + ": \r\n".len() + value) as u64
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};

    use super::*;

    #[test]
    fn a_head_counts_as_on_the_wire() {
        let wire =
            "HTTP/1.1 404 Not Found\r\ncontent-type: text/css\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n\r\n";
        let mut fields = HeaderMap::new();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/css"));
        for cookie in ["a=1", "b=2"] {
            fields.append(header::SET_COOKIE, HeaderValue::from_static(cookie));
        }
        let size = |version| head_size(version, StatusCode::NOT_FOUND, &fields);
        assert_eq!(size(Version::HTTP_11), wire.len() as u64);
        assert_eq!(size(Version::HTTP_2), 10 + 3 * 2 + 6 + 2 + 2);
    }

    #[test]
    fn a_part_of_a_body_counts_in_proportion() {
        let size = OriginSize::of_head(Version::HTTP_11, StatusCode::OK, &HeaderMap::new());
        assert_eq!(size.part(10), Some(0));
        size.received(100);
        size.decoded(400);
        assert_eq!(
            [0, 100, 400, 900].map(|decoded| size.part(decoded)),
            [0, 25, 100, 100].map(Some)
        );
        let stored = OriginSize::of_stored(size.to_stored(), 400);
        assert_eq!((stored.body(), stored.part(200)), (Some(100), Some(50)));
        assert_eq!(OriginSize::of_stored(None, 400).body(), None);
        assert_eq!(OriginSize::none().part(400), Some(0));
    }

    #[test]
    fn a_stored_body_was_coded_if_the_origin_sent_another_length() {
        let bytes = |body| Some(OriginBytes { head: 1, body });
        assert!(OriginSize::of_stored(bytes(100), 400).is_coded());
        assert!(!OriginSize::of_stored(bytes(400), 400).is_coded());
        assert!(!OriginSize::of_stored(None, 400).is_coded(), "unknown");
    }
}
