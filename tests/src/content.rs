//! Generated contents. They are here because this library is optimised and the end-to-end tests are not: a test transfers
//! hundreds of megabytes of them.

/// Incompressible bytes, the same for the same seed (xorshift64*).
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_685_821_657_736_338_717) | 1;
    let mut step = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(2_685_821_657_736_338_717).to_be_bytes()
    };
    let mut bytes: Vec<u8> = std::iter::repeat_with(&mut step)
        .take(length / 8 + 1)
        .flatten()
        .collect();
    bytes.truncate(length);
    bytes
}

/// Text with about the compression ratio of a typical page, the same for the same seed.
pub fn prose(length: usize, seed: u64) -> Vec<u8> {
    const WORDS: &[&str] = &[
        "<p>",
        "</p>\n",
        "the ",
        "gateway ",
        "fetches ",
        "what ",
        "a ",
        "page ",
        "needs",
        ", ",
        "link ",
        "depot ",
        "<a href=\"/",
        "\">",
        "</a> ",
        "slow ",
        "over ",
        "and ",
        "harbour ",
        "caf\u{e9} ",
    ];
    let mut text = Vec::with_capacity(length + 16);
    for (at, byte) in noise(length, seed).into_iter().enumerate() {
        text.extend_from_slice(WORDS[usize::from(byte) % WORDS.len()].as_bytes());
        if at % 16 == 0 {
            text.extend_from_slice(at.to_string().as_bytes());
        }
        if text.len() >= length {
            break;
        }
    }
    text.truncate(length);
    text
}
