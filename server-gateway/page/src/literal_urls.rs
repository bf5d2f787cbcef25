//! URLs that stand literally in a document: in its scripts, data and attributes.
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use url::Url;

/// Longest URL that is found, in bytes; longer texts are data.
const MAX_LITERAL: usize = 1024;
/// Maximum number of URLs of a document: several times those of heavy pages.
const MAX_LITERALS: usize = 4096;
/// Longest escape sequence that is read, such as `\u002F` and `&#x2F;`.
const MAX_ESCAPE: usize = 6;

/// Finds the URLs that stand literally in a document while it arrives.
///
/// A literal is an absolute URL of http or https, one without scheme (`//host/path`), or a path in quotes (`"/path"`). The
/// escapes of JSON, JavaScript and HTML for slashes and ampersands are read (`https:\/\/host\/`, `\u002F`, `&amp;`). Each
/// URL is returned once, without fragment, by the call that reads the byte after it. The result does not depend on the
/// division of the document into pieces.
#[derive(Debug)]
pub struct LiteralUrls {
    base: Url,
    /// Bytes that are not read yet: a part of an escape sequence.
    pending: Vec<u8>,
    /// The text since the last delimiter, without escapes.
    text: Vec<u8>,
    /// True if a quote precedes the text.
    is_quoted: bool,
    known: BTreeSet<Url>,
}

/// What stands at the beginning of some bytes.
enum Symbol {
    /// A byte of a text, and the number of bytes that denote it.
    Byte(u8, usize),
    /// A byte that ends a text, and the number of bytes that denote it.
    Delimiter { length: usize, is_quote: bool },
    /// More bytes are needed.
    Incomplete,
}

impl LiteralUrls {
    /// Starts the search in the document at `base`, against which paths are resolved.
    pub fn new(base: &Url) -> Self {
        Self {
            base: base.clone(),
            pending: Vec::new(),
            text: Vec::new(),
            is_quoted: false,
            known: BTreeSet::new(),
        }
    }

    /// Takes the document's next decoded bytes and returns the new URLs.
    pub fn write(&mut self, html: &[u8]) -> Vec<Url> {
        let joined;
        let bytes = if self.pending.is_empty() {
            html
        } else {
            joined = [std::mem::take(&mut self.pending).as_slice(), html].concat();
            &joined
        };
        let mut found = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            match symbol(&bytes[at..]) {
                Symbol::Byte(byte, length) => {
                    // One more than the longest text shows that the text is too long.
                    if self.text.len() <= MAX_LITERAL {
                        self.text.push(byte);
                    }
                    at += length;
                }
                Symbol::Delimiter { length, is_quote } => {
                    found.extend(self.end_text());
                    self.is_quoted = is_quote;
                    at += length;
                }
                Symbol::Incomplete => {
                    self.pending = bytes[at..].to_vec();
                    break;
                }
            }
        }
        found
    }

    /// The URL in the text, if it is new.
    fn end_text(&mut self) -> Option<Url> {
        let text = std::mem::take(&mut self.text);
        if text.len() > MAX_LITERAL || self.known.len() >= MAX_LITERALS {
            return None;
        }
        let literal = literal_of(&text, self.is_quoted)?;
        let mut url = self.base.join(std::str::from_utf8(literal).ok()?).ok()?;
        url.set_fragment(None);
        let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
        (is_web && self.known.insert(url.clone())).then_some(url)
    }
}

/// The part of a text that is a URL.
fn literal_of(text: &[u8], is_quoted: bool) -> Option<&[u8]> {
    let colon = text.windows(3).position(|three| three == b"://");
    if let Some(colon) = colon {
        let is_scheme = |scheme: &&[u8]| text[..colon].ends_with(scheme);
        let scheme = [b"https".as_slice(), b"http"].into_iter().find(is_scheme)?;
        return Some(&text[colon - scheme.len()..]);
    }
    let is_host_like = |byte: &u8| byte.is_ascii_alphanumeric();
    match text {
        [b'/', b'/', rest @ ..] => rest.first().is_some_and(is_host_like).then_some(text),
        [b'/', rest @ ..] => (is_quoted && rest.first().is_some_and(is_host_like)).then_some(text),
        _ => None,
    }
}

/// Reads the symbol at the beginning of some bytes, which are not empty.
fn symbol(bytes: &[u8]) -> Symbol {
    match bytes[0] {
        b'\\' => escape(bytes),
        b'&' => character_reference(bytes),
        byte => denoted(byte, 1),
    }
}

/// The symbol of a character that is denoted by `length` bytes.
fn denoted(byte: u8, length: usize) -> Symbol {
    match byte {
        b'"' | b'\'' | b'`' => Symbol::Delimiter {
            length,
            is_quote: true,
        },
        ..=b' ' | b'<' | b'>' | b'(' | b')' | b'{' | b'}' | b'|' | b'^' | b'\\' => Symbol::Delimiter {
            length,
            is_quote: false,
        },
        byte => Symbol::Byte(byte, length),
    }
}

/// The symbol of an escaped character; those beyond ASCII do not occur in URLs.
fn escaped(code: Option<u32>, length: usize) -> Symbol {
    let byte = code.and_then(|code| u8::try_from(code).ok());
    denoted(byte.filter(u8::is_ascii).unwrap_or(b' '), length)
}

/// An escape sequence of JavaScript or JSON.
fn escape(bytes: &[u8]) -> Symbol {
    let digits = match bytes.get(1) {
        None => return Symbol::Incomplete,
        Some(b'x') => 2,
        Some(b'u') => 4,
        Some(b'/' | b'"' | b'\'' | b'`') => return denoted(bytes[1], 2),
        // Of a line break or another character that no URL contains.
        Some(_) => return denoted(b' ', 2),
    };
    let length = 2 + digits;
    match bytes.get(2..length) {
        Some(code) => escaped(number(code, 16), length),
        None => Symbol::Incomplete,
    }
}

/// A character reference of HTML.
fn character_reference(bytes: &[u8]) -> Symbol {
    let window = &bytes[..bytes.len().min(MAX_ESCAPE)];
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
    let end = 1 + window[1..].iter().take_while(|byte| is_name(byte)).count();
    match window.get(end) {
        Some(b';') => {}
        None if window.len() < MAX_ESCAPE => return Symbol::Incomplete,
        Some(_) | None => return Symbol::Byte(b'&', 1),
    }
    let length = end + 1;
    match &bytes[1..end] {
        b"amp" => Symbol::Byte(b'&', length),
        b"quot" => denoted(b'"', length),
        b"lt" | b"gt" => denoted(b'<', length),
        [b'#', b'x' | b'X', code @ ..] => escaped(number(code, 16), length),
        [b'#', code @ ..] => escaped(number(code, 10), length),
        _ => Symbol::Byte(b'&', 1),
    }
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}
