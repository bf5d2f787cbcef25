//! Bodies: windows of the hop (docs/protocol/body.md) and content codings of origins.
use longhaul_codec::{
    BodyDecoder, BodyEncoder, BodyEvent, BodyLimits, Coder, Coding, ContentDecoder, ContentDecodingLimits,
    MIX_MEMORY, MemoryShares, OriginCoding,
};
use longhaul_types::PublicKey;

const KEY: [u8; 32] = [7; 32];
/// Codings by the first bits of an input.
const CODINGS: [Coding; 4] = [Coding::Identity, Coding::Zstd, Coding::Brotli, Coding::Mix];

/// Base of bodies with a base: it occurs in the seeds.
const BASE: &[u8] = b"of one window, and then of another one; ";

/// The first byte selects the coding and the presence of a base; the rest are windows. Split in two parts,
/// they decode equally.
pub(crate) fn body_windows(bytes: &[u8]) {
    let Some((&first, wire)) = bytes.split_first() else {
        return;
    };
    let coding = CODINGS[usize::from(first % 4)];
    let base = if first & 4 == 0 { &[][..] } else { BASE };
    let cut = wire.len() / 2;
    assert_eq!(
        decode(coding, base, &[wire]),
        decode(coding, base, &[&wire[..cut], &wire[cut..]]),
        "the split changed the body"
    );
}

fn decode(coding: Coding, base: &[u8], parts: &[&[u8]]) -> (Vec<u8>, bool) {
    let mut decoder = BodyDecoder::with_base(KEY, coding, BodyLimits::default(), base);
    let mut body = Vec::new();
    for part in parts {
        let mut input = *part;
        loop {
            match decoder.next(&mut input) {
                Ok(BodyEvent::Window(window)) => body.extend_from_slice(&window),
                Ok(BodyEvent::NeedInput) => break,
                Ok(BodyEvent::End(_)) => return (body, true),
                Err(_) => return (body, false),
            }
        }
    }
    (body, decoder.finish().is_ok())
}

pub(crate) fn body_seeds() -> Vec<Vec<u8>> {
    let coders = [
        Coder::Identity,
        Coder::Zstd { level: 3 },
        Coder::Brotli { quality: 5 },
    ];
    let plain = coders.map(|coder| BodyEncoder::new(KEY, coder, None).expect("a coder"));
    let based = coders.map(|coder| BodyEncoder::with_base(KEY, coder, None, BASE).expect("a coder"));
    let memory = MemoryShares::new(MIX_MEMORY).of(PublicKey::from_bytes([1; 32]));
    let mixed = BodyEncoder::mixed(KEY, None, &memory).expect("memory");
    let seed = |mut encoder: BodyEncoder, base: u8| {
        let mut wire = vec![encoder.coding().code() | base];
        encoder
            .push(&b"one window, then another ".repeat(40), &mut wire)
            .expect("codes");
        encoder.flush(&mut wire).expect("codes");
        encoder.push(b"the end", &mut wire).expect("codes");
        encoder.finish(&mut wire).expect("codes");
        wire
    };
    let plain = plain.into_iter().chain([mixed]).map(|encoder| seed(encoder, 0));
    plain
        .chain(based.into_iter().map(|encoder| seed(encoder, 4)))
        .collect()
}

const STACKS: &[&[&str]] = &[
    &["gzip"],
    &["deflate"],
    &["br"],
    &["zstd"],
    &["gzip", "br"],
    &["identity"],
];

/// The first byte selects the codings; the rest is a coded body. Output stays within its limit.
pub(crate) fn content_codings(bytes: &[u8]) {
    let Some((&first, mut coded)) = bytes.split_first() else {
        return;
    };
    let stack = STACKS[usize::from(first) % STACKS.len()];
    let codings: Vec<OriginCoding> = stack.iter().filter_map(|name| name.parse().ok()).collect();
    let limits = ContentDecodingLimits {
        max_output: longhaul_types::ByteCount::mib(1),
        ..ContentDecodingLimits::default()
    };
    let Ok(mut content_decoder) = ContentDecoder::new(&codings, limits, None) else {
        return;
    };
    let mut total = 0;
    loop {
        let mut out = Vec::new();
        let Ok(step) = content_decoder.push(coded, &mut out) else {
            return;
        };
        total += out.len();
        assert!(
            out.len() <= ContentDecoder::MAX_STEP,
            "one step returned {} bytes",
            out.len()
        );
        assert!(
            total <= (1 << 20) + ContentDecoder::MAX_STEP,
            "the limit was exceeded: {total} bytes"
        );
        coded = &coded[step.consumed..];
        if !step.more {
            break;
        }
    }
    let _incomplete = content_decoder.finish();
}

pub(crate) fn coding_seeds() -> Vec<Vec<u8>> {
    // Empty streams of each coding: gzip, zlib, brotli, zstd.
    vec![
        vec![
            0, 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
        vec![1, 0x78, 0x9c, 3, 0, 0, 0, 0, 1],
        vec![2, 0x06],
        vec![3, 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00, 0x01, 0x00, 0x00],
        b"\x05plain".to_vec(),
    ]
}
