//! What the browser has already of a body that must be asked for again.
use bytes::Bytes;
use longhaul_codec::{BodyDecoder, BodyEncoder, BodyEvent, BodyLimits, Coder, Coding};

/// The start of a body that the browser has already.
#[derive(Debug, Default)]
pub(super) struct Known {
    bytes: Vec<u8>,
    confirmed: usize,
}

impl Known {
    pub(super) const fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, confirmed: 0 }
    }

    /// Whether all of it came again.
    pub(super) const fn is_confirmed(&self) -> bool {
        self.confirmed == self.bytes.len()
    }

    /// What of the next bytes is new; `None` if they differ from what is known.
    pub(super) fn fresh_part(&mut self, mut window: Bytes) -> Option<Bytes> {
        let left = &self.bytes[self.confirmed..];
        let repeated = left.len().min(window.len());
        let same = window.split_to(repeated) == left[..repeated];
        self.confirmed += repeated;
        same.then_some(window)
    }
}

/// A decoder that has yielded these bytes, for the rest behind them.
pub(super) fn decoder_behind(delivered: &[Bytes]) -> Option<BodyDecoder> {
    // The codec's decoders come to an offset by windows alone; these never leave this function.
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
    fn a_decoder_stands_behind_what_was_delivered() {
        let delivered = [Bytes::from_static(b"hello "), Bytes::from(vec![b'x'; 70_000])];
        let decoder = decoder_behind(&delivered).unwrap();
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
        let known = || Known::new(b"abcdef".to_vec());
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let mut same = known();
        assert_eq!(same.fresh_part(bytes("abcd")), Some(Bytes::new()));
        assert_eq!(same.fresh_part(bytes("efgh")), Some(bytes("gh")));
        assert_eq!(same.fresh_part(bytes("ij")), Some(bytes("ij")));
        assert_eq!(known().fresh_part(bytes("abX")), None);
    }
}
