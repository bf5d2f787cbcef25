//! Coded results without the hashes of a session, for reuse in other sessions.
use bytes::Bytes;
use longhaul_types::{ContentHash, varint};

use super::{BodyDecoder, BodyEvent, BodyLimits, HASH_SIZE, WindowPosition, parse_size_field, window_limits};
use crate::coding::{After, Coding, EncodeError};

/// The coded windows of a whole body without base.
///
/// The windows of a body differ between sessions only in their hashes, so a body that was coded once can be
/// sent with any key ([`AdaptiveEncoder::with_coded`](crate::AdaptiveEncoder::with_coded)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedBody {
    coding: Coding,
    /// As on the wire, without the hashes.
    data: Bytes,
    windows: Vec<Window>,
    length: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    length: usize,
    position: WindowPosition,
    /// Range of the coded bytes.
    start: usize,
    end: usize,
}

impl CodedBody {
    /// Takes the windows of a body as sent with `key`, and decodes them to find the content hash, which it
    /// returns too. `None` if they are not the windows of a whole body in this coding and without base, or if
    /// the coding is identity.
    pub fn of_windows(key: [u8; 32], coding: Coding, wire: &[u8]) -> Option<(Self, ContentHash)> {
        if coding == Coding::Identity {
            return None;
        }
        let mut decoder = BodyDecoder::new(key, coding, BodyLimits::default());
        let mut input = wire;
        let hash = loop {
            match decoder.next(&mut input).ok()? {
                BodyEvent::Window(_) => {}
                BodyEvent::End(hash) => break hash,
                BodyEvent::NeedInput => return None,
            }
        };
        let mut data = Vec::with_capacity(wire.len());
        let mut rest = wire;
        while !rest.is_empty() {
            let (head, _) = header(rest)?;
            let (fields, behind) = rest.split_at_checked(head.size)?;
            let (_hash, behind) = behind.split_at_checked(HASH_SIZE)?;
            let (coded, behind) = behind.split_at_checked(head.coded)?;
            data.extend_from_slice(fields);
            data.extend_from_slice(coded);
            rest = behind;
        }
        Some((Self::parse(coding, data.into())?, hash))
    }

    /// Parses the value of [`Self::data`]. `None` if it is malformed; the decoded bytes are not verified.
    pub fn parse(coding: Coding, data: Bytes) -> Option<Self> {
        if coding == Coding::Identity {
            return None;
        }
        let mut windows: Vec<Window> = Vec::new();
        let (mut at, mut length) = (0, 0);
        while at < data.len() {
            if windows
                .last()
                .is_some_and(|last| last.position == WindowPosition::Last)
            {
                return None;
            }
            let (head, position) = header(&data[at..])?;
            let start = at + head.size;
            let end = start.checked_add(head.coded).filter(|end| *end <= data.len())?;
            windows.push(Window {
                length: head.length,
                position,
                start,
                end,
            });
            length += head.length as u64;
            at = end;
        }
        let is_whole = windows
            .last()
            .is_some_and(|last| last.position == WindowPosition::Last);
        is_whole.then_some(Self {
            coding,
            data,
            windows,
            length,
        })
    }

    /// The data to store for [`Self::parse`], in addition to the coding.
    pub const fn data(&self) -> &Bytes {
        &self.data
    }

    /// Coding of the windows.
    pub const fn coding(&self) -> Coding {
        self.coding
    }

    /// Decoded bytes of the body.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Number of windows; larger than the length requires if the body was coded as it arrived in small parts.
    pub const fn windows(&self) -> usize {
        self.windows.len()
    }
}

struct Header {
    /// Size of the fields before the hash.
    size: usize,
    length: usize,
    coded: usize,
}

/// Parses the fields of a window before its hash.
fn header(wire: &[u8]) -> Option<(Header, WindowPosition)> {
    let mut rest = wire;
    let (most, most_coded) = window_limits(false);
    let (length, position) = parse_size_field(varint::decode(&mut rest).ok()?, most)?;
    let coded = if length == 0 {
        0
    } else {
        usize::try_from(varint::decode(&mut rest).ok()?).ok()?
    };
    let header = Header {
        size: wire.len() - rest.len(),
        length,
        coded,
    };
    ((coded > 0) == (length > 0) && coded <= most_coded).then_some((header, position))
}

/// A coder that returns stored results.
pub(crate) struct Replay {
    body: CodedBody,
    next: usize,
}

impl Replay {
    pub(crate) const fn new(body: CodedBody) -> Self {
        Self { body, next: 0 }
    }

    /// Decoded length of the next window, and whether it is the last.
    pub(crate) fn next(&self) -> Option<(usize, After)> {
        let window = self.body.windows.get(self.next)?;
        let after = match window.position {
            WindowPosition::Inner => After::More,
            WindowPosition::Last => After::End,
        };
        Some((window.length, after))
    }

    /// Appends the coded bytes of the next window, which must have this length and position.
    pub(crate) fn code(&mut self, length: usize, after: After, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if self.next() != Some((length, after)) {
            return Err(EncodeError("replaying"));
        }
        let window = self.body.windows[self.next];
        out.extend_from_slice(&self.body.data[window.start..window.end]);
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BodyEncoder, Coder, MAX_WINDOW};

    const KEY: [u8; 32] = [1; 32];
    const OTHER: [u8; 32] = [2; 32];

    fn text(length: usize) -> Vec<u8> {
        let words = (0_u32..).map(|n| format!("{:x} ", n.wrapping_mul(2_654_435_761) >> 12));
        let mut text: Vec<u8> = words.take(length / 4 + 1).flat_map(String::into_bytes).collect();
        text.truncate(length);
        text
    }

    fn coded(body: &[u8], coder: Coder, flush_at: usize) -> Vec<u8> {
        let mut wire = Vec::new();
        let mut encoder = BodyEncoder::new(KEY, coder, None).unwrap();
        let (first, rest) = body.split_at(flush_at);
        encoder.push(first, &mut wire).unwrap();
        encoder.flush(&mut wire).unwrap();
        encoder.push(rest, &mut wire).unwrap();
        encoder.finish(&mut wire).unwrap();
        wire
    }

    fn replayed(body: &[u8], kept: CodedBody, piece: usize) -> Vec<u8> {
        let mut wire = Vec::new();
        let mut encoder = BodyEncoder::replay(OTHER, kept);
        for part in body.chunks(piece) {
            encoder.push(part, &mut wire).unwrap();
            encoder.flush(&mut wire).unwrap();
        }
        assert_eq!(encoder.finish(&mut wire).unwrap(), ContentHash::of(body));
        wire
    }

    #[test]
    fn an_encoding_is_replayed_under_any_window_key() {
        for coder in [Coder::Brotli { quality: 5 }, Coder::Zstd { level: 3 }] {
            for length in [1, 5_000, MAX_WINDOW, MAX_WINDOW + 1, 3 * MAX_WINDOW, 200_000] {
                let body = text(length);
                for flush_at in [0, 1, length / 2, length] {
                    let wire = coded(&body, coder, flush_at);
                    let (kept, hash) = CodedBody::of_windows(KEY, coder.coding(), &wire).unwrap();
                    assert_eq!((hash, kept.length()), (ContentHash::of(&body), length as u64));
                    let again = CodedBody::parse(coder.coding(), kept.data().clone()).unwrap();
                    assert_eq!(again, kept);
                    for piece in [777, 100_000] {
                        let out = replayed(&body, again.clone(), piece);
                        assert_eq!(out.len(), wire.len());
                        let (same, _) = CodedBody::of_windows(OTHER, coder.coding(), &out).unwrap();
                        assert_eq!(same, kept);
                    }
                }
            }
        }
    }

    #[test]
    fn a_replay_rejects_a_different_body() {
        let body = text(50_000);
        let wire = coded(&body, Coder::Zstd { level: 3 }, 0);
        let (kept, _) = CodedBody::of_windows(KEY, Coding::Zstd, &wire).unwrap();
        let mut out = Vec::new();
        let mut shorter = BodyEncoder::replay(OTHER, kept.clone());
        shorter.push(&body[..49_999], &mut out).unwrap();
        assert!(shorter.finish(&mut out).is_err());
        let mut longer = BodyEncoder::replay(OTHER, kept);
        let result = longer.push(&text(50_001), &mut out);
        assert!(result.is_err() || longer.finish(&mut out).is_err());
    }

    #[test]
    fn stored_encodings_require_complete_and_valid_windows() {
        let body = text(70_000);
        let mut wire = coded(&body, Coder::Brotli { quality: 5 }, 0);
        assert!(CodedBody::of_windows(OTHER, Coding::Brotli, &wire).is_none());
        assert!(CodedBody::of_windows(KEY, Coding::Zstd, &wire).is_none());
        assert!(CodedBody::of_windows(KEY, Coding::Identity, &wire).is_none());
        assert!(CodedBody::of_windows(KEY, Coding::Brotli, &wire[..wire.len() - 1]).is_none());
        let (kept, _) = CodedBody::of_windows(KEY, Coding::Brotli, &wire).unwrap();
        wire.push(0);
        assert!(CodedBody::of_windows(KEY, Coding::Brotli, &wire).is_none());
        for cut in [0, 1, 100, kept.data().len() - 1] {
            assert!(CodedBody::parse(Coding::Brotli, kept.data().slice(..cut)).is_none());
        }
        let doubled = [&kept.data()[..], &kept.data()[..]].concat();
        assert!(CodedBody::parse(Coding::Brotli, doubled.into()).is_none());
    }
}
