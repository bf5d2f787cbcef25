//! VCDIFF deltas: received from a peer, and generated.
use longhaul_codec::vcdiff::{
    Checksum, DecodeError, Decoder, DeltaEffort, Event, Limits, decode, encode, encode_with,
};
use longhaul_types::ByteCount;

/// Splits an input: two bytes are the length of the first text; the second text follows it.
fn two_texts(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    Some(rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len())))
}

fn joined(first: &[u8], second: &[u8]) -> Vec<u8> {
    let length = u16::try_from(first.len()).expect("a short text");
    [&length.to_le_bytes(), first, second].concat()
}

/// A source and a delta, which decodes within the limits or fails, equally in one part and in two.
pub(crate) fn vcdiff_decode(bytes: &[u8]) {
    let Some((source, delta)) = two_texts(bytes) else {
        return;
    };
    let limits = Limits {
        max_target: ByteCount::mib(1),
        max_window: ByteCount::kib(256),
        max_windows: 50,
        max_instructions: 10_000,
        ..Limits::default()
    };
    let whole = decode(source, delta, limits);
    let (first, second) = delta.split_at(delta.len() / 2);
    assert_eq!(
        pieces(source, [first, second], limits),
        whole,
        "the split changed the target"
    );
    if let Ok(target) = whole {
        assert!(
            target.len() <= 1 << 20,
            "the limit was exceeded: {} bytes",
            target.len()
        );
        let again = encode(source, &target, DeltaEffort::Fast);
        assert_eq!(decode(source, &again, Limits::default()), Ok(target));
    }
}

fn pieces(source: &[u8], pieces: [&[u8]; 2], limits: Limits) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = Decoder::new(source, limits)?;
    let mut target = Vec::new();
    for mut piece in pieces {
        while let Event::Window(window) = decoder.next(&mut piece)? {
            target.extend_from_slice(&window);
        }
    }
    decoder.finish()?;
    Ok(target)
}

pub(crate) fn vcdiff_decode_seeds() -> Vec<Vec<u8>> {
    let texts = [
        (&b"abcdefghijklmnop"[..], &b"abcdwxyzefghefghefghefghzzzzzzzz"[..]),
        (b"", b"no source, no source"),
        (b"the same text", b"the same text"),
        (b"an old text, then more of it", b""),
    ];
    let delta = |(source, target): (&[u8], &[u8])| {
        [Checksum::None, Checksum::Adler32]
            .map(|checksum| joined(source, &encode_with(source, target, DeltaEffort::Best, checksum)))
    };
    let mut seeds: Vec<Vec<u8>> = texts.into_iter().flat_map(delta).collect();
    // As xdelta3 writes it: an application header, then two windows, the first without source segment.
    let written = b"\xd6\xc3\xc4\x00\x04\x05a//b/\
        \x00\x08\x02\x00\x01\x02\x00z\x00\x02\
        \x01\x08\x00\x07\x08\x00\x00\x01\x01\x18\x00";
    seeds.push(joined(b"abcdefgh", written));
    // The second window copies from the first.
    let from_target = b"\xd6\xc3\xc4\x00\x00\
        \x00\x0a\x04\x00\x04\x01\x00abcd\x05\
        \x02\x04\x00\x07\x04\x00\x00\x01\x01\x14\x00";
    seeds.push(joined(b"", from_target));
    seeds
}

/// Two texts: the second one, encoded as differences from the first, is restored at every effort.
pub(crate) fn vcdiff_encode(bytes: &[u8]) {
    let Some((source, target)) = two_texts(bytes) else {
        return;
    };
    for effort in [DeltaEffort::Fast, DeltaEffort::Best] {
        for checksum in [Checksum::None, Checksum::Adler32] {
            let delta = encode_with(source, target, effort, checksum);
            let decoded = decode(source, &delta, Limits::default());
            assert_eq!(decoded.as_deref(), Ok(target), "{effort:?} with {checksum:?}");
            // One ADD for everything is always possible; the cost of copies is estimated, and may be slightly
            // higher.
            let most = target.len() + target.len() / 64 + 40;
            assert!(delta.len() <= most, "{effort:?}: {} bytes", delta.len());
        }
    }
}

pub(crate) fn vcdiff_encode_seeds() -> Vec<Vec<u8>> {
    let page = b"<li class=\"a\"><a href=\"/one\">one</a></li>\n".repeat(8);
    let mut edited = page.clone();
    edited.splice(100..120, *b"another text");
    vec![
        joined(&page, &edited),
        joined(&edited, &page),
        joined(b"", &page),
        joined(&page, b""),
        joined(&[0; 40], &[0; 700]),
    ]
}
