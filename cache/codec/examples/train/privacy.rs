//! Data that a dictionary must not contain, however many sites have them: addresses, numbers and tokens.
use std::ops::Range;

/// Maximum run of digits: years and sizes pass; telephone numbers and identifiers do not.
const MAX_DIGITS: usize = 6;
/// Maximum run of hexadecimal digits that contains both digits and letters; colours pass.
const MAX_HEX: usize = 11;
/// Maximum word that mixes digits with letters of both cases; longer words look like keys.
const MAX_MIXED: usize = 19;

/// Replacement of masked bytes. No web text contains it, and no fragment may.
pub(crate) const MASK: u8 = 0;

/// Masks all forbidden data.
pub(crate) fn mask(text: &mut [u8]) {
    for range in offences(text) {
        text[range].fill(MASK);
    }
}

/// Returns the ranges of addresses, numbers and tokens.
pub(crate) fn offences(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    runs(
        text,
        |byte| byte.is_ascii_digit(),
        |range| {
            if range.len() > MAX_DIGITS {
                found.push(range);
            }
        },
    );
    runs(
        text,
        |byte| byte.is_ascii_hexdigit(),
        |range| {
            if range.len() > MAX_HEX && is_mixed(&text[range.clone()]) {
                found.push(range);
            }
        },
    );
    runs(text, is_word, |range| {
        let word = &text[range.clone()];
        if range.len() > MAX_MIXED
            && is_mixed(word)
            && word.iter().any(u8::is_ascii_lowercase)
            && word.iter().any(u8::is_ascii_uppercase)
        {
            found.push(range);
        }
    });
    runs(
        text,
        |byte| is_word(byte) || matches!(byte, b'@' | b'.' | b'+' | b'%'),
        |range| {
            if is_address(&text[range.clone()]) {
                found.push(range);
            }
        },
    );
    found
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_mixed(word: &[u8]) -> bool {
    word.iter().any(u8::is_ascii_digit) && word.iter().any(u8::is_ascii_alphabetic)
}

/// True for an e-mail address: a mailbox, an at sign, and a host with a dot.
fn is_address(word: &[u8]) -> bool {
    let mut parts = word.splitn(2, |byte| *byte == b'@');
    match (parts.next(), parts.next()) {
        (Some(mailbox), Some(host)) => {
            !mailbox.is_empty() && host.iter().skip(1).rev().skip(1).any(|byte| *byte == b'.')
        }
        _ => false,
    }
}

/// Calls `each` for every maximal run of bytes of a kind.
fn runs(text: &[u8], of_kind: impl Fn(u8) -> bool, mut each: impl FnMut(Range<usize>)) {
    let mut start = None;
    for (at, byte) in text.iter().enumerate() {
        match (start, of_kind(*byte)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                each(from..at);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        each(from..text.len());
    }
}
