//! How chunks are written (RFC 9112 section 7.1), and how they should not be.
use std::fmt;

use super::change::shown;

/// A way of writing the chunked transfer coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkStyle {
    /// Before each size.
    pub before: &'static [u8],
    /// Between each size and its line end.
    pub after: &'static [u8],
    /// The line end of each size.
    pub size_end: &'static [u8],
    /// After the data of each chunk.
    pub data_end: &'static [u8],
    /// After the last data.
    pub last: &'static [u8],
    /// True for sizes in upper case.
    pub upper: bool,
}

impl ChunkStyle {
    /// As the standard says.
    pub(super) const PLAIN: Self = Self {
        before: b"",
        after: b"",
        size_end: b"\r\n",
        data_end: b"\r\n",
        last: b"0\r\n\r\n",
        upper: false,
    };

    /// Writes a body in this way, in chunks of two sizes.
    pub(super) fn write(&self, body: &[u8]) -> Vec<u8> {
        let mut written = Vec::new();
        let (first, rest) = body.split_at(body.len().min(11));
        for chunk in [first, rest] {
            if chunk.is_empty() {
                continue;
            }
            let size = if self.upper {
                format!("{:X}", chunk.len())
            } else {
                format!("{:x}", chunk.len())
            };
            for part in [
                self.before,
                size.as_bytes(),
                self.after,
                self.size_end,
                chunk,
                self.data_end,
            ] {
                written.extend_from_slice(part);
            }
        }
        written.extend_from_slice(self.last);
        written
    }
}

impl fmt::Display for ChunkStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            before,
            after,
            size_end,
            data_end,
            last,
            upper,
        } = self;
        let case = if *upper { "SIZE" } else { "size" };
        write!(
            f,
            "{}{case}{}{} data {} last {}",
            shown(before),
            shown(after),
            shown(size_end),
            shown(data_end),
            shown(last)
        )
    }
}
