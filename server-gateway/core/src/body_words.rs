//! The words of bodies. Learning searches them for the words of URLs.
use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
};

/// Maximum length of a word; longer runs are data.
pub const MAX_WORD: usize = 256;

/// Passes the parts of a body on, without the words at their ends that may go on in the next part.
pub fn in_whole_words(part: &[u8], rest: &mut Vec<u8>, mut pass: impl FnMut(&[u8])) {
    rest.extend_from_slice(part);
    let tail = rest.iter().rev().take_while(|byte| is_in_name(byte)).count();
    let kept = rest.split_off(rest.len() - tail);
    pass(rest);
    *rest = kept;
    if rest.len() > MAX_WORD {
        // No name is as long: the rest is data, whose first bytes are searched on their own.
        pass(rest);
        rest.clear();
    }
}

/// Words of a text, and names of hosts in it.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Token<'a> {
    /// A word of text.
    Word(&'a [u8]),
    /// The name of a host.
    Name(&'a [u8]),
}

/// The words of bodies that no cache stores, by hash: they are gone when the visit is learned from.
#[derive(Debug, Default)]
pub struct BodyWords {
    hasher: RandomState,
    tokens: HashSet<u64>,
}

impl BodyWords {
    /// Adds a part of a body. `rest` is the end of the part before, which the call replaces; empty at the start of the
    /// body. A word at the end of the body is not added: HTML ends with a tag.
    pub fn add(&mut self, part: &[u8], rest: &mut Vec<u8>) {
        in_whole_words(part, rest, |text| {
            let found = words(text).map(Token::Word).chain(names(text).map(Token::Name));
            for token in found {
                if self.tokens.len() >= MAX_TOKENS {
                    return;
                }
                self.tokens.insert(self.hasher.hash_one(token));
            }
        });
    }

    /// True if a body contains the token, or another one with its hash.
    pub fn contains(&self, token: Token<'_>) -> bool {
        self.tokens.contains(&self.hasher.hash_one(token))
    }
}

/// Maximum number of words that are collected for a page; about 1.2 MB.
const MAX_TOKENS: usize = 65_536;

fn is_in_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')
}

/// Names of hosts, among others.
pub fn names(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| !is_in_name(byte))
        .filter(|name| !name.is_empty())
}

/// Maximal runs of letters and digits.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| !byte.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
}
