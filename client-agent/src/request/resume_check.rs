//! Comparison of a repeated body with the bytes that the browser already has.
use bytes::Bytes;
use longhaul_codec::{BodyDecoder, BodyEncoder, BodyEvent, BodyLimits, Coder, Coding};

/// Prefix of a body: its length and hash.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivered {
    length: u64,
    hasher: blake3::Hasher,
}

impl Delivered {
    /// Appends bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.hasher.update(bytes);
    }

    /// Number of bytes.
    pub(super) const fn length(&self) -> u64 {
        self.length
    }
}

/// The prefix of a body that the browser already has. The gateway must repeat it; bytes after the prefix are
/// delivered only once the whole prefix has been repeated and matches.
#[derive(Debug, Default)]
pub(super) struct ResumeCheck {
    expected: Delivered,
    repeated: Delivered,
}

impl ResumeCheck {
    pub(super) fn new(delivered: &Delivered) -> Self {
        Self {
            expected: delivered.clone(),
            repeated: Delivered::default(),
        }
    }

    /// True if the whole prefix was repeated.
    pub(super) const fn is_confirmed(&self) -> bool {
        self.repeated.length == self.expected.length
    }

    /// Returns the part of the next bytes after the prefix; `None` if the repeated prefix differs.
    pub(super) fn fresh_part(&mut self, mut window: Bytes) -> Option<Bytes> {
        if self.is_confirmed() {
            return Some(window);
        }
        let left = self.expected.length - self.repeated.length;
        let repeated = usize::try_from(left).unwrap_or(usize::MAX).min(window.len());
        self.repeated.add(&window.split_to(repeated));
        let same = !self.is_confirmed() || self.repeated.hasher.finalize() == self.expected.hasher.finalize();
        same.then_some(window)
    }
}

/// Returns a decoder that has already yielded these bytes, to decode the rest.
pub(super) fn decoder_after(delivered: &[Bytes]) -> Option<BodyDecoder> {
    // A decoder of the codec reaches an offset only by decoding windows; these windows never leave this
    // function.
    let key = [0; 32];
    let mut encoder = BodyEncoder::new(key, Coder::Identity, None).ok()?;
    let mut decoder = BodyDecoder::new(key, Coding::Identity, BodyLimits::default());
    let mut wire = Vec::new();
    for bytes in delivered {
        encoder.push(bytes, &mut wire).ok()?;
        encoder.flush(&mut wire).ok()?;
        let mut windows = wire.as_slice();
        while decoder.next(&mut windows).ok()? != BodyEvent::NeedInput {}
        wire.clear();
    }
    Some(decoder)
}

#[cfg(test)]
mod tests {
    use longhaul_types::ContentHash;

    use super::*;

    #[test]
    fn the_resumed_decoder_starts_after_the_delivered_bytes() {
        let delivered = [Bytes::from_static(b"hello "), Bytes::from(vec![b'x'; 70_000])];
        let decoder = decoder_after(&delivered).unwrap();
        assert_eq!(decoder.offset(), 70_006);
        let whole = [&delivered.concat()[..], b"world"].concat();
        let key = [7; 32];
        let mut encoder = BodyEncoder::resume(key, Coder::Identity, None, &whole[..70_006]).unwrap();
        let mut wire = Vec::new();
        encoder.push(b"world", &mut wire).unwrap();
        encoder.finish(&mut wire).unwrap();
        let mut decoder = decoder.resume(key, Coding::Identity);
        let mut windows = wire.as_slice();
        assert_eq!(
            decoder.next(&mut windows),
            Ok(BodyEvent::Window(Bytes::from_static(b"world")))
        );
        assert_eq!(
            decoder.next(&mut windows),
            Ok(BodyEvent::End(ContentHash::of(&whole)))
        );
    }

    #[test]
    fn a_repeated_start_is_compared() {
        let known = || {
            let mut delivered = Delivered::default();
            delivered.add(b"abc");
            delivered.add(b"def");
            ResumeCheck::new(&delivered)
        };
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let mut same = known();
        assert_eq!(same.fresh_part(bytes("abcd")), Some(Bytes::new()));
        assert!(!same.is_confirmed());
        assert_eq!(same.fresh_part(bytes("efgh")), Some(bytes("gh")));
        assert!(same.is_confirmed());
        assert_eq!(same.fresh_part(bytes("ij")), Some(bytes("ij")));
        let mut other = known();
        assert_eq!(other.fresh_part(bytes("abX")), Some(Bytes::new()));
        assert_eq!(other.fresh_part(bytes("defgh")), None);
        assert_eq!(
            ResumeCheck::default().fresh_part(bytes("abc")),
            Some(bytes("abc"))
        );
    }
}
