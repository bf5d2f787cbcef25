//! Reads the paths that a source file names: those of its imports, and those in its code that begin with `crate`, `self` or
//! `super`.

/// A path in a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) segments: Vec<String>,
    /// The name after `as`.
    alias: Option<String>,
    /// Part of a `use` declaration.
    pub(crate) is_import: bool,
    /// Part of a `use` declaration with a visibility.
    pub(crate) is_reexport: bool,
}

impl Path {
    /// The name under which the path's item is known in the file.
    pub(crate) fn name(&self) -> Option<&String> {
        self.alias.as_ref().or_else(|| self.segments.last())
    }

    /// An import of all names of a module.
    pub(crate) fn is_glob(&self) -> bool {
        self.is_import && self.segments.last().is_some_and(|last| last == "*")
    }
}

/// All paths of a file, without those of its test module.
pub(crate) fn paths_of(text: &str) -> Vec<Path> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let tokens = tokens(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let token = tokens[at].as_str();
        if token == "use" {
            let is_reexport = at > 0 && matches!(tokens[at - 1].as_str(), "pub" | ")");
            let mut reader = Reader {
                tokens: &tokens,
                at: at + 1,
                is_reexport,
                found: &mut found,
            };
            reader.tree(&[]);
            at = reader.at;
        } else if matches!(token, "crate" | "self" | "super")
            && tokens.get(at + 1).is_some_and(|next| next == "::")
        {
            let (segments, next) = plain(&tokens, at);
            found.push(Path {
                segments,
                alias: None,
                is_import: false,
                is_reexport: false,
            });
            at = next;
        } else {
            at += 1;
        }
    }
    found
}

/// Reads `a::b::c` from `at`; returns its names and the position after them.
fn plain(tokens: &[String], mut at: usize) -> (Vec<String>, usize) {
    let mut segments = Vec::new();
    while let Some(name) = tokens.get(at).filter(|token| is_name(token)) {
        segments.push(name.clone());
        at += 1;
        if tokens.get(at).is_none_or(|next| next != "::") {
            break;
        }
        at += 1;
    }
    (segments, at)
}

/// Reads the tree of one `use` declaration.
struct Reader<'a> {
    tokens: &'a [String],
    at: usize,
    is_reexport: bool,
    found: &'a mut Vec<Path>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn tree(&mut self, before: &[String]) {
        let (names, next) = plain(self.tokens, self.at);
        self.at = next;
        let mut segments = before.to_vec();
        segments.extend(names);
        match self.peek() {
            Some("{") => self.group(&segments),
            Some("*") => {
                self.at += 1;
                segments.push("*".to_owned());
                self.push(segments, None);
            }
            Some("as") => {
                let alias = self.tokens.get(self.at + 1).cloned();
                self.at += 2;
                self.push(segments, alias);
            }
            _ => self.push(segments, None),
        }
    }

    fn group(&mut self, before: &[String]) {
        self.at += 1;
        while let Some(token) = self.peek() {
            match token {
                "}" => {
                    self.at += 1;
                    return;
                }
                "," => self.at += 1,
                _ => {
                    let start = self.at;
                    self.tree(before);
                    if self.at == start {
                        return;
                    }
                }
            }
        }
    }

    fn push(&mut self, mut segments: Vec<String>, alias: Option<String>) {
        // `use a::{self}` imports `a`.
        if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
            segments.pop();
        }
        self.found.push(Path {
            segments,
            alias,
            is_import: true,
            is_reexport: self.is_reexport,
        });
    }
}

fn is_name(token: &str) -> bool {
    token
        .chars()
        .next()
        .is_some_and(|first| first.is_alphabetic() || first == '_')
}

/// Names and punctuation of a source text, without comments, strings and character literals.
fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(hashes) = raw_string(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = hashes + 2;
            rest[body..]
                .find(&end)
                .map_or(rest.len(), |at| body + at + end.len())
        } else if first == '"' {
            string_length(rest)
        } else if first == '\'' {
            character_length(rest)
        } else if is_name(rest) || first.is_ascii_digit() {
            let length = rest
                .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .unwrap_or(rest.len());
            found.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            found.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                found.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

/// The number of `#` of a raw string that begins here.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// The length of the string literal that begins here.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the character literal or the lifetime's tick that begins here.
fn character_length(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => text[2..].find('\'').map_or(text.len(), |at| at + 3).max(4),
        Some((_, _)) => match letters.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

#[test]
fn paths_of_imports_and_code_are_read() {
    let text = "use crate::a::{self, b::C as D, e::*};\npub(crate) use super::F; // use crate::no;\nfn g() { let _ = \"crate::no\"; self::h::i(); }";
    let read: Vec<(String, Option<String>, bool)> = paths_of(text)
        .into_iter()
        .map(|path| (path.segments.join("::"), path.alias.clone(), path.is_reexport))
        .collect();
    let path =
        |path: &str, alias: Option<&str>, reexport| (path.to_owned(), alias.map(str::to_owned), reexport);
    assert_eq!(
        read,
        [
            path("crate::a", None, false),
            path("crate::a::b::C", Some("D"), false),
            path("crate::a::e::*", None, false),
            path("super::F", None, true),
            path("self::h::i", None, false),
        ]
    );
}
