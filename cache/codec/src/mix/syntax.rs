//! Approximate parser for HTML, CSS, JavaScript and JSON, which only improves predictions.

/// Maximum number of stored nesting levels.
const DEPTH: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyntaxPosition {
    /// Between tags, or before any tag.
    Text,
    /// After `<`.
    Name,
    /// Among the attributes.
    Tag,
    /// In an attribute's value.
    Value,
}

/// State of the parser. Hashes are 0 if there is no value.
pub(super) struct Syntax {
    pub(super) place: SyntaxPosition,
    /// The open quotation mark, or 0.
    pub(super) quote: u8,
    /// Hashes of the current word and of the previous word.
    pub(super) word: u32,
    pub(super) word_before: u32,
    /// The byte before the current word.
    pub(super) gap: u8,
    /// Hashes of the name of the current or last tag, and of its attribute.
    pub(super) tag: u32,
    pub(super) attribute: u32,
    /// In scripts, styles and JSON: the name before the last `:` or `=`.
    pub(super) key: u32,
    /// Hash of the bytes since the last delimiter of the place.
    pub(super) token: u32,
    closing: bool,
    script: bool,
    markup: bool,
    tags: [u32; DEPTH],
    tag_depth: usize,
    brackets: [u32; DEPTH],
    bracket_depth: usize,
    pub(super) column: u32,
    last: u8,
}

fn mix(hash: u32, byte: u8) -> u32 {
    (hash.wrapping_add(u32::from(byte)).wrapping_add(1)).wrapping_mul(0x2f0b_4a27)
}

/// Hash of a name, equal to that of `mix` over its bytes.
const fn name(bytes: &[u8]) -> u32 {
    let mut hash = 0u32;
    let mut at = 0;
    while at < bytes.len() {
        hash = hash
            .wrapping_add(bytes[at] as u32)
            .wrapping_add(1)
            .wrapping_mul(0x2f0b_4a27);
        at += 1;
    }
    hash
}

const SCRIPT: u32 = name(b"script");
const STYLE: u32 = name(b"style");
const VOID: [u32; 6] = [
    name(b"img"),
    name(b"br"),
    name(b"meta"),
    name(b"link"),
    name(b"input"),
    name(b"source"),
];

impl Syntax {
    pub(super) fn new() -> Self {
        Self {
            place: SyntaxPosition::Text,
            quote: 0,
            word: 0,
            word_before: 0,
            gap: 0,
            tag: 0,
            attribute: 0,
            key: 0,
            token: 0,
            closing: false,
            script: false,
            markup: false,
            tags: [0; DEPTH],
            tag_depth: 0,
            brackets: [0; DEPTH],
            bracket_depth: 0,
            column: 0,
            last: 0,
        }
    }

    /// The innermost open tag and its parent.
    pub(super) fn open_tags(&self) -> (u32, u32) {
        let at = |back: usize| {
            self.tag_depth
                .checked_sub(back)
                .map_or(0, |index| self.tags[index % DEPTH])
        };
        (at(1), at(2))
    }

    /// The owner of the innermost open bracket.
    pub(super) fn bracket(&self) -> u32 {
        self.bracket_depth
            .checked_sub(1)
            .map_or(0, |index| self.brackets[index % DEPTH])
    }

    pub(super) fn is_code(&self) -> bool {
        self.script || !self.markup
    }

    /// Parses one byte.
    pub(super) fn update(&mut self, byte: u8) {
        self.update_line(byte);
        self.update_word(byte);
        match self.place {
            SyntaxPosition::Text => self.text(byte),
            SyntaxPosition::Name => self.name(byte),
            SyntaxPosition::Tag => self.tag(byte),
            SyntaxPosition::Value => self.value(byte),
        }
        self.last = byte;
    }

    fn update_line(&mut self, byte: u8) {
        self.column = if byte == b'\n' {
            0
        } else {
            (self.column + 1).min(255)
        };
    }

    fn update_word(&mut self, byte: u8) {
        if byte.is_ascii_alphanumeric() || byte >= 0x80 {
            if self.word == 0 {
                self.gap = self.last;
            }
            self.word = mix(self.word, byte.to_ascii_lowercase());
        } else if self.word != 0 {
            self.word_before = self.word;
            self.word = 0;
        }
    }

    fn text(&mut self, byte: u8) {
        if self.last == b'<'
            && (byte.is_ascii_alphabetic() || byte == b'/' || byte == b'!')
            && (!self.script || byte == b'/')
        {
            self.place = SyntaxPosition::Name;
            self.closing = byte == b'/';
            self.markup |= byte != b'/';
            self.script = false;
            self.quote = 0;
            self.tag = 0;
            self.attribute = 0;
            self.token = 0;
            if !self.closing {
                self.name(byte);
            }
            return;
        }
        self.token = if byte == b'>' || byte == b' ' {
            0
        } else {
            mix(self.token, byte)
        };
        if self.is_code() {
            self.code(byte);
        }
    }

    fn code(&mut self, byte: u8) {
        if self.quote != 0 {
            if byte == self.quote && self.last != b'\\' || byte == b'\n' {
                self.quote = 0;
            }
            return;
        }
        match byte {
            b'"' | b'\'' | b'`' => {
                self.quote = byte;
                self.token = 0;
            }
            b'{' | b'[' | b'(' => {
                self.brackets[self.bracket_depth % DEPTH] = self.key.wrapping_add(u32::from(byte));
                self.bracket_depth += 1;
                self.key = 0;
                self.token = 0;
            }
            b'}' | b']' | b')' => {
                self.key = self.bracket();
                self.bracket_depth = self.bracket_depth.saturating_sub(1);
                self.token = 0;
            }
            b':' | b'=' => {
                self.key = self.word_before;
                self.token = 0;
            }
            b';' | b',' => {
                self.token = 0;
                if byte == b';' {
                    self.key = 0;
                }
            }
            _ => {}
        }
    }

    fn name(&mut self, byte: u8) {
        match byte {
            b'>' => self.end_tag(),
            b' ' | b'\n' | b'\t' | b'\r' => {
                self.place = SyntaxPosition::Tag;
                self.token = 0;
            }
            _ => self.tag = mix(self.tag, byte.to_ascii_lowercase()),
        }
    }

    fn tag(&mut self, byte: u8) {
        match byte {
            b'>' => self.end_tag(),
            b' ' | b'\n' | b'\t' | b'\r' => {
                self.token = 0;
            }
            b'=' => {
                self.attribute = self.token;
                self.token = 0;
                self.place = SyntaxPosition::Value;
                self.quote = 0;
            }
            _ => self.token = mix(self.token, byte),
        }
    }

    fn value(&mut self, byte: u8) {
        if self.quote == 0 {
            match byte {
                b'"' | b'\'' if self.last == b'=' => self.quote = byte,
                b'>' => self.end_tag(),
                b' ' | b'\n' => {
                    self.place = SyntaxPosition::Tag;
                    self.token = 0;
                }
                _ => self.token = mix(self.token, byte),
            }
        } else if byte == self.quote {
            self.quote = 0;
            self.place = SyntaxPosition::Tag;
            self.token = 0;
        } else {
            self.token = mix(self.token, byte);
        }
    }

    fn end_tag(&mut self) {
        self.place = SyntaxPosition::Text;
        self.quote = 0;
        self.token = 0;
        if self.closing {
            let low = self.tag_depth.saturating_sub(DEPTH);
            if let Some(index) = (low..self.tag_depth)
                .rev()
                .find(|&index| self.tags[index % DEPTH] == self.tag)
            {
                self.tag_depth = index;
            }
        } else if self.last != b'/' && !VOID.contains(&self.tag) {
            self.tags[self.tag_depth % DEPTH] = self.tag;
            self.tag_depth += 1;
            if self.tag == SCRIPT || self.tag == STYLE {
                self.script = true;
                self.key = 0;
                self.bracket_depth = 0;
            }
        }
        self.attribute = 0;
    }
}
