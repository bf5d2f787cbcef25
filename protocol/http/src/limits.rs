//! Limits of header sections.
use http::HeaderMap;
use longhaul_types::ByteCount;

/// Limits of a header section and a request target. Messages beyond them are rejected, never truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderLimits {
    /// Total size of the fields, each counted as a line of HTTP/1.1. Default 64 KiB: servers accept 8 to 64
    /// KiB, and a browser's cookies of one site may take most of that.
    pub max_size: ByteCount,
    /// Number of fields. Default 256: many more than any browser or server sends, and few enough for little
    /// work per message.
    pub max_fields: usize,
    /// Length of the request target. Default 32 KiB: the longest that common servers accept.
    pub max_target: ByteCount,
}

impl Default for HeaderLimits {
    fn default() -> Self {
        Self {
            max_size: ByteCount::kib(64),
            max_fields: 256,
            max_target: ByteCount::kib(32),
        }
    }
}

/// A header section or target exceeds a limit. The response to a browser is 431 or 414; for an origin's
/// response it is 502.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The total size of the fields is too large.
    #[error("the header section is larger than {0}")]
    Size(ByteCount),
    /// There are too many fields.
    #[error("the header section has more than {0} fields")]
    Fields(usize),
    /// The request target is too long.
    #[error("the request target is longer than {0}")]
    Target(ByteCount),
}

/// Returns the size of a header section as HTTP/1.1 lines.
pub fn header_size(headers: &HeaderMap) -> ByteCount {
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + LINE_OVERHEAD)
        .sum();
    ByteCount::new(bytes as u64)
}

impl HeaderLimits {
    /// Checks a header section.
    ///
    /// # Errors
    /// The header section exceeds a limit.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), LimitError> {
        if headers.len() > self.max_fields {
            return Err(LimitError::Fields(self.max_fields));
        }
        if header_size(headers) > self.max_size {
            return Err(LimitError::Size(self.max_size));
        }
        Ok(())
    }

    /// Checks a request target.
    ///
    /// # Errors
    /// The target is too long.
    pub fn check_target(&self, target: &str) -> Result<(), LimitError> {
        if target.len() as u64 > self.max_target.bytes() {
            return Err(LimitError::Target(self.max_target));
        }
        Ok(())
    }
}

/// The colon, a space, and the end of the line.
const LINE_OVERHEAD: usize = 4;

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};

    use super::*;

    #[test]
    fn limits_are_exact() {
        let limits = HeaderLimits {
            max_size: ByteCount::new(40),
            max_fields: 2,
            max_target: ByteCount::new(3),
        };
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("0123456789"));
        assert_eq!(header_size(&headers), ByteCount::new(20));
        headers.append(header::COOKIE, HeaderValue::from_static("0123456789"));
        assert_eq!(limits.check(&headers), Ok(()));
        headers.append(header::COOKIE, HeaderValue::from_static(""));
        assert_eq!(limits.check(&headers), Err(LimitError::Fields(2)));
        headers.insert(
            header::COOKIE,
            HeaderValue::from_static("0123456789012345678901234567890"),
        );
        assert_eq!(limits.check(&headers), Err(LimitError::Size(ByteCount::new(40))));
        assert_eq!(limits.check_target("/ab"), Ok(()));
        assert_eq!(
            limits.check_target("/abc"),
            Err(LimitError::Target(ByteCount::new(3)))
        );
    }
}
