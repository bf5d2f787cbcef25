//! Length of response bodies (RFC 9112 section 6.3), with what browsers forgive.
use super::head::HeadError;

/// End of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// The last chunk.
    Chunked,
    /// The end of the connection.
    Close,
    /// This number of bytes.
    Length(u64),
    /// There is no body.
    None,
}

/// What a head declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) framing: BodyFraming,
    /// False if RFC 9112 forbids the form of the declaration.
    pub(super) is_strict: bool,
}

/// The values of the fields that determine the length of a body.
#[derive(Clone, Debug, Default)]
pub(super) struct FramingFields {
    lengths: Vec<Vec<u8>>,
    codings: Vec<Vec<u8>>,
}

impl FramingFields {
    /// Takes a field that determines the length; returns false for others.
    pub(super) fn take(&mut self, name: &[u8], value: &[u8]) -> bool {
        let values = if name.eq_ignore_ascii_case(b"content-length") {
            &mut self.lengths
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            &mut self.codings
        } else {
            return false;
        };
        values.extend(
            value
                .split(|byte| *byte == b',')
                .map(|part| part.trim_ascii().to_vec()),
        );
        true
    }

    /// Determines the length that a head of HTTP/1.`version` declares. Browsers read no chunks in HTTP/1.0; most programs do,
    /// and their files would contain the sizes of the chunks.
    pub(super) fn declared(&self, version: u8, reads_old_chunks: bool) -> Result<Declared, HeadError> {
        let is_chunked = if version == 0 {
            reads_old_chunks && self.is_only_chunked()
        } else {
            self.is_chunked()?
        };
        let length = self.length()?;
        // Neither `identity` (RFC 2616 section 3.6) nor a coding in HTTP/1.0 is of RFC 9112.
        let are_codings_strict = self.codings.is_empty() || version > 0 && self.is_only_chunked();
        let (framing, is_length_strict) = match (is_chunked, length) {
            (true, None) if self.lengths.is_empty() => (BodyFraming::Chunked, true),
            // Other recipients take the length (RFC 9112 section 6.3 rule 3).
            (true, _) => return Err(HeadError::AmbiguousLength),
            (false, Some(length)) => (BodyFraming::Length(length), self.lengths.len() == 1),
            (false, None) => (BodyFraming::Close, self.lengths.is_empty()),
        };
        Ok(Declared {
            framing,
            is_strict: are_codings_strict && is_length_strict,
        })
    }

    /// Determines the length that a response without a body declares for the body that another request would get.
    pub(super) fn declared_without_body(&self) -> Declared {
        let length = self.length();
        Declared {
            framing: length
                .ok()
                .flatten()
                .map_or(BodyFraming::None, BodyFraming::Length),
            is_strict: length.is_ok() && self.lengths.len() <= 1,
        }
    }

    /// True if the body has the chunked coding. No other coding is requested (RFC 9110 section 10.1.4), so that no
    /// correct server uses one; not decoded, it would reach the browser as content.
    fn is_chunked(&self) -> Result<bool, HeadError> {
        let mut codings = self
            .codings
            .iter()
            .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
        match (codings.next(), codings.next()) {
            (None, _) => Ok(false),
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(true),
            (Some(_), _) => Err(HeadError::TransferCoding),
        }
    }

    /// True if the fields name the chunked coding, and nothing else.
    fn is_only_chunked(&self) -> bool {
        matches!(self.codings.as_slice(), [coding] if coding.eq_ignore_ascii_case(b"chunked"))
    }

    /// Returns the value of `Content-Length`; a value that is no number counts as none, as in browsers.
    fn length(&self) -> Result<Option<u64>, HeadError> {
        let mut values = self.lengths.iter();
        let Some(first) = values.next() else {
            return Ok(None);
        };
        if values.any(|value| value != first) {
            return Err(HeadError::AmbiguousLength);
        }
        Ok(number(first))
    }
}

/// Reads a number of digits alone. Larger ones than browsers store are no length.
fn number(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let digits = is_number.then(|| std::str::from_utf8(value).ok())??;
    digits.parse::<i64>().ok()?.try_into().ok()
}
