//! Decoding of windows without blocking other tasks of the thread.
use bytes::{Buf as _, Bytes};
use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits, Coding, DecodeError};

/// Calls [`BodyDecoder::next`], on a blocking thread if a window takes a tenth of a second: acknowledgements
/// must not be delayed.
///
/// If the future is dropped before it completes, the decoder is unusable.
pub(crate) async fn next_window(
    decoder: &mut BodyDecoder,
    wire: &mut Bytes,
) -> Result<BodyEvent, DecodeError> {
    if !decoder.is_heavy() {
        return step(decoder, wire);
    }
    let offset = decoder.offset();
    let absent = BodyDecoder::new([0; 32], Coding::Identity, BodyLimits::default());
    let mut heavy = std::mem::replace(decoder, absent);
    let mut input = std::mem::take(wire);
    let work = move || {
        let event = step(&mut heavy, &mut input);
        (heavy, input, event)
    };
    // This fails only when the process ends.
    let done = tokio::task::spawn_blocking(work).await;
    let (heavy, input, event) = done.map_err(|_| DecodeError::Truncated { offset })?;
    (*decoder, *wire) = (heavy, input);
    event
}

fn step(decoder: &mut BodyDecoder, wire: &mut Bytes) -> Result<BodyEvent, DecodeError> {
    let mut rest = wire.as_ref();
    let event = decoder.next(&mut rest);
    let read = wire.len() - rest.len();
    wire.advance(read);
    event
}

#[cfg(test)]
mod tests {
    use longhaul_codec::{BodyEncoder, MIX_MEMORY, MemoryShares};
    use longhaul_types::PublicKey;

    use super::*;

    const KEY: [u8; 32] = [3; 32];

    #[tokio::test]
    async fn a_large_body_decodes_whole_however_its_stream_is_split() {
        let text = b"the same line, again and again\n".repeat(3_000);
        let memory = MemoryShares::new(MIX_MEMORY).of(PublicKey::from_bytes([1; 32]));
        let mut encoder = BodyEncoder::mixed(KEY, None, &memory).unwrap();
        let mut coded = Vec::new();
        encoder.push(&text, &mut coded).unwrap();
        encoder.finish(&mut coded).unwrap();
        let mut decoder = BodyDecoder::new(KEY, Coding::Mix, BodyLimits::default());
        let mut body = Vec::new();
        for part in coded.chunks(100) {
            let mut wire = Bytes::copy_from_slice(part);
            while let BodyEvent::Window(window) = next_window(&mut decoder, &mut wire).await.unwrap() {
                body.extend_from_slice(&window);
            }
        }
        assert!(body == text);
        assert!(decoder.finish().is_ok());
    }
}
