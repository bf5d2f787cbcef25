//! Request targets with characters that no URL contains (RFC 3986). Programs send `"`, `<`, `>`, spaces and bytes beyond ASCII
//! as their user wrote them, and many servers take them. The HTTP library refuses most of such targets, and nothing malformed
//! may go on, so these characters are percent-encoded before the library sees them, as browsers do. A target ends with the
//! first space that `HTTP/` follows.
//!
//! To find the targets, the encoder follows the requests of the connection. Once it cannot be sure where the next request
//! begins, it encodes nothing any more: the library alone decides what the bytes are.
use std::borrow::Cow;

/// Bytes of a line that are kept. The fields that decide where a request ends are shorter.
const MAX_LINE: usize = 64;
/// Spaces in a row that are kept until it is known whether they belong to the target.
const MAX_SPACES: u16 = 1024;
/// What follows the target and a space.
const VERSION: &[u8] = b"HTTP/";

/// Reads the requests of a connection, and encodes their targets.
#[derive(Debug, Default)]
pub struct TargetEncoder {
    state: State,
    /// The beginning of the method, or of a field line.
    line: Vec<u8>,
    /// Length of the body of this request, if its head has one so far.
    length: Option<u64>,
    /// It is not certain that another request follows this one, or where it begins.
    is_last: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Method,
    TargetStart,
    /// The target before its path, with the number of slashes so far.
    Authority(u8),
    Path,
    Query,
    /// A path or a query that may have ended.
    Spaces(Spaces),
    Version,
    Fields,
    /// So many bytes are left of a body.
    Body(u64),
    /// Nothing is encoded any more.
    Over,
}

/// Spaces, and bytes of [`VERSION`] behind them, that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spaces {
    count: u16,
    version: u8,
    in_query: bool,
}

impl Spaces {
    /// The kept bytes, with this in place of a space.
    fn kept(self, space: &str) -> Vec<u8> {
        let mut kept = space.repeat(usize::from(self.count)).into_bytes();
        kept.extend_from_slice(&VERSION[..usize::from(self.version)]);
        kept
    }
}

/// What takes the place of a byte.
enum Passed {
    Same,
    Replaced(Vec<u8>),
}

impl TargetEncoder {
    /// Reads the next bytes of a connection, and returns what takes their place: nothing, if it depends on what follows.
    pub fn read<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut written: Option<Vec<u8>> = None;
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let passed = match self.state {
                State::Over => bytes.len() - at,
                State::Body(left) => self.body(left, bytes.len() - at),
                State::Method
                | State::TargetStart
                | State::Authority(_)
                | State::Path
                | State::Query
                | State::Spaces(_)
                | State::Version
                | State::Fields => match self.of_head(byte) {
                    Passed::Same => 1,
                    Passed::Replaced(replacement) => {
                        let written = written.get_or_insert_with(|| bytes[..at].to_vec());
                        written.extend_from_slice(&replacement);
                        at += 1;
                        continue;
                    }
                },
            };
            if let Some(written) = &mut written {
                written.extend_from_slice(&bytes[at..at + passed]);
            }
            at += passed;
        }
        written.map_or(Cow::Borrowed(bytes), Cow::Owned)
    }

    /// Reads bytes of a body, and returns how many of them belong to it.
    fn body(&mut self, left: u64, most: usize) -> usize {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(most);
        self.state = match left - length as u64 {
            0 => State::Method,
            left => State::Body(left),
        };
        length
    }

    /// Reads a byte of a head.
    fn of_head(&mut self, byte: u8) -> Passed {
        let is_target = matches!(
            self.state,
            State::TargetStart | State::Authority(_) | State::Path | State::Query
        );
        if is_target && byte.is_ascii_control() {
            self.state = State::Over;
            return Passed::Same;
        }
        match (self.state, byte) {
            (State::Method, _) => self.method(byte),
            (State::TargetStart | State::Authority(_), b' ') => self.state = State::Version,
            (State::Path | State::Query, b' ') => {
                self.state = State::Spaces(Spaces {
                    count: 1,
                    version: 0,
                    in_query: self.state == State::Query,
                });
                return Passed::Replaced(Vec::new());
            }
            (State::Spaces(spaces), _) => return self.behind_space(byte, spaces),
            (State::TargetStart | State::Authority(2), b'/') => self.state = State::Path,
            (State::Path | State::Authority(2), b'?') => self.state = State::Query,
            (State::TargetStart, _) => self.state = State::Authority(0),
            (State::Authority(slashes), b'/') => self.state = State::Authority(slashes.saturating_add(1)),
            (State::Path, b'<' | b'>' | b'`' | 0x80..) | (State::Query, b'"' | b'<' | b'>' | 0x80..) => {
                return Passed::Replaced(format!("%{byte:02X}").into_bytes());
            }
            (State::Version, b'\n') => self.state = State::Fields,
            (State::Fields, b'\n') => self.field_line(),
            (State::Fields, _) if self.line.len() < MAX_LINE => self.line.push(byte),
            (
                State::Authority(_)
                | State::Path
                | State::Query
                | State::Version
                | State::Fields
                | State::Body(_)
                | State::Over,
                _,
            ) => {}
        }
        Passed::Same
    }

    /// Reads a byte behind a space in a target, and passes on what was kept once it is known what the space is.
    fn behind_space(&mut self, byte: u8, spaces: Spaces) -> Passed {
        let next = VERSION.get(usize::from(spaces.version));
        if next == Some(&byte) {
            let version = spaces.version + 1;
            if usize::from(version) < VERSION.len() {
                self.state = State::Spaces(Spaces { version, ..spaces });
                return Passed::Replaced(Vec::new());
            }
            self.state = State::Version;
            // Further spaces belong to nothing.
            return Passed::Replaced([b" ", VERSION].concat());
        }
        if byte == b' ' && spaces.version == 0 && spaces.count < MAX_SPACES {
            let count = spaces.count + 1;
            self.state = State::Spaces(Spaces { count, ..spaces });
            return Passed::Replaced(Vec::new());
        }
        if byte.is_ascii_control() || spaces.count == MAX_SPACES {
            self.state = State::Over;
            return Passed::Replaced([spaces.kept(" "), vec![byte]].concat());
        }
        self.state = if spaces.in_query {
            State::Query
        } else {
            State::Path
        };
        let mut passed = spaces.kept("%20");
        match self.of_head(byte) {
            Passed::Same => passed.push(byte),
            Passed::Replaced(replacement) => passed.extend(replacement),
        }
        Passed::Replaced(passed)
    }

    /// Returns what was kept when the connection ends.
    pub fn end(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Spaces(spaces) => spaces.kept(" "),
            State::Method
            | State::TargetStart
            | State::Authority(_)
            | State::Path
            | State::Query
            | State::Version
            | State::Fields
            | State::Body(_)
            | State::Over => Vec::new(),
        }
    }

    fn method(&mut self, byte: u8) {
        match byte {
            // Empty lines may precede a request (RFC 9112 section 2.2).
            b'\r' | b'\n' if self.line.is_empty() => {}
            b' ' => {
                // What follows is a tunnel.
                self.is_last = self.line == b"CONNECT";
                self.line.clear();
                self.state = State::TargetStart;
            }
            _ if byte.is_ascii_graphic() && self.line.len() < MAX_LINE => self.line.push(byte),
            _ => self.state = State::Over,
        }
    }

    /// Reads the line of a field, or the empty line at the end of a head.
    fn field_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if let [] | [b'\r'] = line.as_slice() {
            self.state = match self.length.take() {
                _ if self.is_last => State::Over,
                None | Some(0) => State::Method,
                Some(length) => State::Body(length),
            };
            return;
        }
        let is_cut = line.len() == MAX_LINE;
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if is("content-length") {
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            let length = number(value).filter(|_| !is_cut && self.length.is_none());
            self.is_last |= length.is_none();
            self.length = length;
        } else {
            let is_odd = !name.iter().all(u8::is_ascii_graphic) || colon.is_none() && !is_cut;
            // Chunks, another protocol, or a body that may not be sent.
            let others = ["transfer-encoding", "upgrade", "expect"];
            self.is_last |= is_odd || others.into_iter().any(is);
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number
        .then(|| std::str::from_utf8(digits).ok()?.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use http::Uri;

    use super::*;

    /// What the library gets of bytes that arrive in pieces of this length.
    fn encoded(bytes: &[u8], piece: usize) -> Vec<u8> {
        let mut encoder = TargetEncoder::default();
        let pieces = bytes.chunks(piece.max(1));
        let mut encoded: Vec<_> = pieces
            .flat_map(|piece| encoder.read(piece).into_owned())
            .collect();
        encoded.extend(encoder.end());
        encoded
    }

    #[track_caller]
    fn becomes(bytes: &str, expected: &str) {
        for piece in 1..=bytes.len() {
            let encoded = encoded(bytes.as_bytes(), piece);
            assert_eq!(String::from_utf8_lossy(&encoded), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn characters_that_no_url_contains_are_encoded() {
        for (target, expected) in [
            (
                "http://a.test/a<b>`?q=\"<x>\"`",
                "http://a.test/a%3Cb%3E%60?q=%22%3Cx%3E%22`",
            ),
            ("http://a.test?q=\"x\"", "http://a.test?q=%22x%22"),
            ("/ok?<b>", "/ok?%3Cb%3E"),
            ("http://a.test/caf\u{e9}", "http://a.test/caf%C3%A9"),
            // The library takes these, and so do servers.
            (
                "http://a.test/{\"a\"}|^?{a}|^\\[]",
                "http://a.test/{\"a\"}|^?{a}|^\\[]",
            ),
            ("http://u<s>:\"p\"@a.test/", "http://u<s>:\"p\"@a.test/"),
            ("/a b  c?d  HTT p HTTP", "/a%20b%20%20c?d%20%20HTT%20p%20HTTP"),
            ("/a ?\u{e9} <", "/a%20?%C3%A9%20%3C"),
            ("/a  ", "/a"),
            ("*", "*"),
        ] {
            becomes(
                &format!("\r\nGET {target} HTTP/1.1\r\nA: <\"b\">\r\n\r\n"),
                &format!("\r\nGET {expected} HTTP/1.1\r\nA: <\"b\">\r\n\r\n"),
            );
        }
        let latin1 = b"GET /\xe9?\xe9 HTTP/1.1\r\n\r\n";
        assert_eq!(encoded(latin1, 3), b"GET /%E9?%E9 HTTP/1.1\r\n\r\n");
    }

    #[test]
    fn bodies_are_not_changed_and_the_requests_behind_them_are() {
        let body = "GET /<b> HTTP/1.1\r\n\r\n";
        let length = body.len();
        let behind = ["/<b>", "/%3Cb%3E"].map(|target| {
            format!("POST /a HTTP/1.1\r\ncontent-LENGTH:  {length} \r\n\r\n{body}GET {target} HTTP/1.1\n\nGET {target} HTTP/1.1\r\n\r\n")
        });
        becomes(&behind[0], &behind[1]);
    }

    #[test]
    fn requests_behind_ordinary_and_long_fields_are_encoded() {
        for field in ["A: b", &format!("{}: b", "x".repeat(2 * MAX_LINE))] {
            let both =
                |target| format!("GET {target} HTTP/1.1\r\n{field}\r\n\r\nGET {target} HTTP/1.1\r\n\r\n");
            becomes(&both("/<b>"), &both("/%3Cb%3E"));
        }
    }

    #[test]
    fn nothing_is_encoded_where_no_request_may_begin() {
        let long = format!("Content-Length: {}1\r\n", " ".repeat(MAX_LINE));
        let cut = format!(
            "Content-Length: {}12\r\n",
            " ".repeat(MAX_LINE - "Content-Length: 1".len())
        );
        for fields in [
            "Transfer-Encoding: chunked\r\n",
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: 1\r\n 2\r\n",
            "Content-Length : 1\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Upgrade: websocket\r\n",
            "expect: 100-continue\r\nContent-Length: 0\r\n",
            "no colon\r\n",
            long.as_str(),
            cut.as_str(),
        ] {
            let bytes = format!("POST /a HTTP/1.1\r\n{fields}\r\nGET /<b> HTTP/1.1\r\n\r\n");
            becomes(&bytes, &bytes);
        }
        for bytes in [
            "CONNECT a.test:443 HTTP/1.1\r\n\r\nGET /<b> HTTP/1.1\r\n\r\n",
            "\u{16}\u{3}\u{1} /<b> \"",
            "GET /\r\nGET /<b> HTTP/1.1\r\n\r\n",
            "GET /a  \r\nGET /<b> HTTP/1.1\r\n\r\n",
            "GET /a HTT\r\nGET /<b> HTTP/1.1\r\n\r\n",
            "GET http://a b/ HTTP/1.1\r\n\r\n",
            "GE\nT /<b> HTTP/1.1\r\n\r\n",
            "GET /a  ",
            &format!("{} /<b> HTTP/1.1\r\n\r\n", "M".repeat(MAX_LINE + 1)),
        ] {
            becomes(bytes, bytes);
        }
        let spaces = " ".repeat(usize::from(MAX_SPACES) + 1);
        let bytes = format!("GET /a{spaces}<b> HTTP/1.1\r\n\r\n").into_bytes();
        assert_eq!(encoded(&bytes, 7), bytes);
    }

    proptest::proptest! {
        #[test]
        fn the_library_takes_what_is_encoded(path in "[ -~\u{80}-\u{fff}]{0,20}", query in "[ -~\u{80}-\u{fff}]{0,20}") {
            let request = format!("GET http://a.test/{path}?{query} HTTP/1.1\r\n\r\n");
            let request = String::from_utf8(encoded(request.as_bytes(), 7)).unwrap();
            let target = request.split(' ').nth(1).unwrap();
            proptest::prop_assert!(target.parse::<Uri>().is_ok(), "{}", target);
        }

        #[test]
        fn pieces_make_no_difference(
            bytes in "(GET|POST|x)? ?[ -~\r\n\u{e9}]{0,40}(\r\n(content-length: [0-9]{1,2}|a: b|[ -~]{0,5}))*(\r\n\r\n)?[ -~\r\n]{0,40}",
            piece in 1_usize..20,
        ) {
            let whole = encoded(bytes.as_bytes(), bytes.len());
            proptest::prop_assert_eq!(encoded(bytes.as_bytes(), piece), whole);
        }
    }
}
