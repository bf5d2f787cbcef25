//! Character encoding of documents and style sheets (HTML Living Standard 13.2.3, CSS Syntax Level 3 section
//! 3.2).
use encoding_rs::{CoderResult, Decoder, Encoding, UTF_8, WINDOWS_1252};

/// Length of the longest byte order mark.
const BOM: usize = 3;
/// Bytes decoded per step.
const STEP: usize = 8 * 1024;
/// Maximum length of an encoding label in an `@charset`.
const MAX_LABEL: usize = 100;

/// Returns the encoding of a label.
pub(crate) fn named(label: &str) -> Option<&'static Encoding> {
    Encoding::for_label(label.as_bytes())
}

/// Returns the encoding that a document's markup declares. The result is never UTF-16, because the parser has
/// read the declaration in an ASCII-compatible encoding.
pub(crate) fn declared(label: &str) -> Option<&'static Encoding> {
    let encoding = named(label)?;
    if encoding == encoding_rs::UTF_16LE || encoding == encoding_rs::UTF_16BE {
        return Some(UTF_8);
    }
    if encoding == encoding_rs::X_USER_DEFINED {
        return Some(WINDOWS_1252);
    }
    Some(encoding)
}

/// Returns the label in a value such as `text/html; charset=utf-8` (HTML Living Standard 2.6.5).
pub(crate) fn in_content_type(value: &str) -> Option<&str> {
    let mut rest = value;
    loop {
        let at = find_ignoring_case(rest, "charset")?;
        rest = rest[at + "charset".len()..].trim_start();
        if let Some(label) = rest.strip_prefix('=') {
            let label = label.trim_start();
            return match label.chars().next()? {
                quote @ ('"' | '\'') => label[1..].split_once(quote).map(|(label, _)| label),
                _ => label.split(|c: char| c == ';' || c.is_ascii_whitespace()).next(),
            };
        }
    }
}

fn find_ignoring_case(text: &str, wanted: &str) -> Option<usize> {
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    text.windows(wanted.len())
        .position(|window| window.eq_ignore_ascii_case(wanted))
}

/// Knowledge of a document's encoding before its markup is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EncodingConfidence {
    /// Determined by the byte order mark or `Content-Type`: declarations in the markup are ignored.
    Certain(&'static Encoding),
    /// Unknown: windows-1252 unless the markup declares another encoding.
    Tentative,
}

impl EncodingConfidence {
    pub(crate) fn encoding(self) -> &'static Encoding {
        match self {
            Self::Certain(encoding) => encoding,
            Self::Tentative => WINDOWS_1252,
        }
    }
}

/// Determines a document's encoding from its first bytes and the charset of its `Content-Type`, and passes
/// the document on in an ASCII-compatible encoding.
pub(crate) struct Transcoder {
    header: Option<&'static Encoding>,
    state: State,
}

/// Receiver of a document whose encoding is determined.
pub(crate) trait Markup {
    /// Called once, before `text`, with the encoding of the following text.
    fn begin(&mut self, confidence: EncodingConfidence);
    /// Receives the next bytes.
    fn text(&mut self, text: &[u8]);
}

enum State {
    /// Too few bytes to detect a byte order mark.
    Begun(Vec<u8>),
    /// Passed on unchanged.
    Plain,
    /// Decoded to UTF-8.
    Coded(Box<Decoder>),
}

impl Transcoder {
    pub(crate) fn new(charset: Option<&str>) -> Self {
        Self {
            header: charset.and_then(named),
            state: State::Begun(Vec::with_capacity(BOM)),
        }
    }

    /// Takes the document's next bytes; `last` marks the end of the document.
    pub(crate) fn write(&mut self, mut bytes: &[u8], last: bool, markup: &mut impl Markup) {
        if let State::Begun(start) = &mut self.state {
            let missing = (BOM - start.len()).min(bytes.len());
            let (head, rest) = bytes.split_at(missing);
            start.extend_from_slice(head);
            bytes = rest;
            if start.len() < BOM && !last {
                return;
            }
            let start = std::mem::take(start);
            let (confidence, skipped) = self.begin(&start);
            markup.begin(confidence);
            self.pass(&start[skipped.min(start.len())..], false, markup);
        }
        self.pass(bytes, last, markup);
    }

    fn begin(&mut self, start: &[u8]) -> (EncodingConfidence, usize) {
        let marked = Encoding::for_bom(start);
        let encoding = marked.map(|(encoding, _)| encoding).or(self.header);
        let skipped = marked.map_or(0, |(_, length)| length);
        let Some(encoding) = encoding else {
            self.state = State::Plain;
            return (EncodingConfidence::Tentative, 0);
        };
        if encoding.is_ascii_compatible() {
            self.state = State::Plain;
            return (EncodingConfidence::Certain(encoding), skipped);
        }
        self.state = State::Coded(Box::new(encoding.new_decoder_without_bom_handling()));
        (EncodingConfidence::Certain(UTF_8), skipped)
    }

    fn pass(&mut self, mut bytes: &[u8], last: bool, markup: &mut impl Markup) {
        match &mut self.state {
            State::Begun(_) => {}
            State::Plain => markup.text(bytes),
            State::Coded(decoder) => {
                let mut text = [0_u8; STEP];
                loop {
                    let (result, read, written, _) = decoder.decode_to_utf8(bytes, &mut text, last);
                    markup.text(&text[..written]);
                    bytes = &bytes[read..];
                    if result == CoderResult::InputEmpty {
                        return;
                    }
                }
            }
        }
    }
}

/// Decodes a style sheet. The encoding is that of the byte order mark, else of the `Content-Type` charset,
/// else of `@charset`, else of the referring document or style sheet.
pub(crate) fn decode_sheet<'a>(
    css: &'a [u8],
    charset: Option<&str>,
    referring: Option<&'static Encoding>,
) -> (std::borrow::Cow<'a, str>, &'static Encoding) {
    let own = || at_charset(css);
    let fallback = charset
        .and_then(named)
        .or_else(own)
        .or(referring)
        .unwrap_or(UTF_8);
    let (text, encoding, _) = fallback.decode(css);
    (text, encoding)
}

/// Returns the encoding of `@charset "…";` at the very start of a style sheet.
fn at_charset(css: &[u8]) -> Option<&'static Encoding> {
    let rest = css.strip_prefix(b"@charset \"")?;
    let end = rest.iter().take(MAX_LABEL).position(|&byte| byte == b'"')?;
    let label = rest[end..].starts_with(b"\";").then_some(&rest[..end])?;
    declared(std::str::from_utf8(label).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Text(Option<EncodingConfidence>, Vec<u8>);

    impl Markup for Text {
        fn begin(&mut self, confidence: EncodingConfidence) {
            assert_eq!(self.0.replace(confidence), None);
        }

        fn text(&mut self, text: &[u8]) {
            assert!(self.0.is_some());
            self.1.extend_from_slice(text);
        }
    }

    fn passed(pieces: &[&[u8]], charset: Option<&str>) -> (Option<EncodingConfidence>, Vec<u8>) {
        let mut transcoder = Transcoder::new(charset);
        let mut text = Text::default();
        for (index, piece) in pieces.iter().enumerate() {
            transcoder.write(piece, index + 1 == pieces.len(), &mut text);
        }
        (text.0, text.1)
    }

    #[test]
    fn byte_order_marks_override_headers_and_headers_override_markup() {
        let utf8 = EncodingConfidence::Certain(UTF_8);
        type Pieces = &'static [&'static [u8]];
        let cases: [(Pieces, Option<&str>, EncodingConfidence, &str); 9] = [
            (&[b"abcd"], None, EncodingConfidence::Tentative, "abcd"),
            (&[b"a"], None, EncodingConfidence::Tentative, "a"),
            (&[b""], Some("bogus"), EncodingConfidence::Tentative, ""),
            (&[b"\xef\xbb", b"\xbfa"], Some("windows-1252"), utf8, "a"),
            (&[b"\xff\xfea\0b\0"], Some("utf-8"), utf8, "ab"),
            (&[b"\xfe\xff", b"\0", b"a\0", b"b"], None, utf8, "ab"),
            (&[b"a\0", b"b\0c", b"\0"], Some("utf-16le"), utf8, "abc"),
            (
                &[b"abc"],
                Some("Shift_JIS"),
                EncodingConfidence::Certain(encoding_rs::SHIFT_JIS),
                "abc",
            ),
            (&[b"a\x1b$BF|", b"\x1b(Bb"], Some("iso-2022-jp"), utf8, "a日b"),
        ];
        for (pieces, charset, confidence, text) in cases {
            let (found, passed) = passed(pieces, charset);
            assert_eq!(
                (found, String::from_utf8(passed).unwrap().as_str()),
                (Some(confidence), text)
            );
        }
        let long: Vec<u8> = "ab"
            .repeat(STEP)
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(passed(&[&long], Some("utf-16")).1.len(), 2 * STEP);
    }

    #[test]
    fn labels_are_found_in_content_types() {
        let cases = [
            ("text/html; charset=utf-8", Some("utf-8")),
            ("text/html; CHARSET = \"gbk\"; x", Some("gbk")),
            ("text/html; charset='euc-kr", None),
            ("charset charset=x y", Some("x")),
            ("text/html", None),
            ("charset=", None),
            ("é charset=é;", Some("é")),
        ];
        for (value, label) in cases {
            assert_eq!(in_content_type(value), label, "{value}");
        }
        assert_eq!(declared("utf-16"), Some(UTF_8));
    }

    #[test]
    fn style_sheets_are_decoded_by_mark_header_or_charset_rule() {
        let name = |css: &[u8], charset| decode_sheet(css, charset, Some(encoding_rs::GBK)).1.name();
        assert_eq!(name(b"@charset \"shift_jis\";a{}", None), "Shift_JIS");
        assert_eq!(name(b"@charset \"shift_jis\";a{}", Some("utf-8")), "UTF-8");
        assert_eq!(name(b"@charset 'shift_jis';a{}", None), "GBK");
        assert_eq!(name(b"\xef\xbb\xbfa{}", Some("gbk")), "UTF-8");
        let (text, _) = decode_sheet(b"\xff\xfea\0", None, None);
        assert_eq!(text, "a");
    }
}
