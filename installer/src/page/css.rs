//! What a style sheet loads: `@import`, fonts, and the images that its `url()`s name.
//!
//! Selectors are not matched, so images count that a browser would leave out because no element shows them.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "CSS has thirty kinds of tokens, of which each place here wants a few"
)]

use cssparser::{CowRcStr, ParseError, Parser, ParserInput, Token};
use url::Url;

use super::{Destination, Reference, media};

/// Nested blocks followed; real sheets nest about six deep, and each level costs stack.
const MAX_DEPTH: usize = 32;

/// The sub-resources of the style sheet, style element or style attribute `css` at `base`.
pub fn discover(css: &str, base: &Url) -> Vec<Reference> {
    let mut input = ParserInput::new(css);
    let mut sheet = Sheet {
        base,
        found: Vec::new(),
    };
    sheet.rules(&mut Parser::new(&mut input), 0);
    sheet.found
}

struct Sheet<'a> {
    base: &'a Url,
    found: Vec<Reference>,
}

type Nested<'i> = Result<(), ParseError<'i, ()>>;

impl Sheet<'_> {
    fn rules(&mut self, parser: &mut Parser<'_, '_>, depth: usize) {
        let mut property = Property::default();
        while let Ok(token) = parser.next() {
            let token = token.clone();
            property.observe(&token);
            match token {
                Token::AtKeyword(name) => self.at_rule(&name, parser, depth),
                Token::UnquotedUrl(url) if property.loads() => self.add(&url, Destination::Image),
                Token::Function(name) => self.function(&name, &property, parser, depth),
                Token::CurlyBracketBlock | Token::ParenthesisBlock | Token::SquareBracketBlock => {
                    self.nested(parser, depth);
                }
                _ => {}
            }
        }
    }

    fn nested(&mut self, parser: &mut Parser<'_, '_>, depth: usize) {
        if depth < MAX_DEPTH {
            let _: Nested<'_> = parser.parse_nested_block(|parser| {
                self.rules(parser, depth + 1);
                Ok(())
            });
        }
    }

    fn function(&mut self, name: &str, property: &Property, parser: &mut Parser<'_, '_>, depth: usize) {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "url" | "src" => {
                if let (Some(url), true) = (quoted(parser), property.loads()) {
                    self.add(&url, Destination::Image);
                }
            }
            // A browser loads one candidate of an image set: at device pixel ratio 1 the first is the one.
            "image-set" | "-webkit-image-set" => {
                if let Some(url) = first_url(parser) {
                    self.add(&url, Destination::Image);
                }
            }
            _ => self.nested(parser, depth),
        }
    }

    fn at_rule(&mut self, name: &str, parser: &mut Parser<'_, '_>, depth: usize) {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "import" => self.import(parser),
            "charset" | "namespace" => {
                prelude(parser);
            }
            "media" => {
                let (query, block) = prelude(parser);
                if block && media::applies(&query) {
                    self.nested(parser, depth);
                }
            }
            "supports" => {
                let (condition, block) = prelude(parser);
                if block && !condition.trim_start().to_ascii_lowercase().starts_with("not") {
                    self.nested(parser, depth);
                }
            }
            "font-face" => self.font_face(parser),
            // Blocks of other rules (layer, container, keyframes, page) are read by the caller's loop.
            _ => {}
        }
    }

    fn font_face(&mut self, parser: &mut Parser<'_, '_>) {
        if !prelude(parser).1 {
            return;
        }
        let font: Result<Option<String>, ParseError<'_, ()>> =
            parser.parse_nested_block(|parser| Ok(font_source(parser)));
        if let Ok(Some(url)) = font {
            self.add(&url, Destination::Font);
        }
    }

    fn import(&mut self, parser: &mut Parser<'_, '_>) {
        let target = match parser.next().cloned() {
            Ok(Token::QuotedString(url) | Token::UnquotedUrl(url)) => url.to_string(),
            Ok(Token::Function(name)) if name.eq_ignore_ascii_case("url") => {
                quoted(parser).unwrap_or_default()
            }
            _ => return,
        };
        let (conditions, _) = prelude(parser);
        if media::applies(import_media(&conditions)) {
            self.add(&target, Destination::Style);
        }
    }

    fn add(&mut self, target: &str, destination: Destination) {
        self.found
            .extend(Reference::resolve(target, self.base, destination));
    }
}

/// The media queries behind `@import`'s URL: `layer`, `layer(…)` and `supports(…)` may stand before them.
fn import_media(conditions: &str) -> &str {
    let mut rest = conditions.trim();
    for keyword in ["layer", "supports"] {
        if !rest
            .get(..keyword.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(keyword))
        {
            continue;
        }
        rest = rest[keyword.len()..].trim_start();
        if rest.starts_with('(') {
            let mut depth = 0_usize;
            let end = rest.find(|c: char| {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                depth == 0
            });
            rest = end.map_or("", |end| rest[end + 1..].trim_start());
        }
    }
    rest
}

/// Skips to the end of an at-rule's prelude; whether a block follows (which is then the parser's last token).
fn prelude(parser: &mut Parser<'_, '_>) -> (String, bool) {
    let start = parser.position();
    let block = loop {
        match parser.next_including_whitespace_and_comments() {
            Ok(Token::Semicolon) | Err(_) => break false,
            Ok(Token::CurlyBracketBlock) => break true,
            Ok(_) => {}
        }
    };
    (
        parser.slice_from(start).trim_end_matches([';', '{']).to_owned(),
        block,
    )
}

/// The string in `url("…")`.
fn quoted(parser: &mut Parser<'_, '_>) -> Option<String> {
    let read: Result<String, ParseError<'_, ()>> =
        parser.parse_nested_block(|parser| Ok(parser.expect_string()?.to_string()));
    read.ok()
}

/// The first URL or string anywhere in a function.
fn first_url(parser: &mut Parser<'_, '_>) -> Option<String> {
    let mut found = None;
    let _: Nested<'_> = parser.parse_nested_block(|parser| {
        while let Ok(token) = parser.next().cloned() {
            let url = match token {
                Token::UnquotedUrl(url) | Token::QuotedString(url) => Some(url.to_string()),
                Token::Function(name) if name.eq_ignore_ascii_case("url") => quoted(parser),
                _ => None,
            };
            found = found.take().or(url);
        }
        Ok(())
    });
    found
}

/// The one file that a browser loads for an `@font-face`: the first that it can read, from the last `src` that has
/// one, and only if the face covers Latin letters.
fn font_source(parser: &mut Parser<'_, '_>) -> Option<String> {
    let mut source = None;
    let mut latin = true;
    while !parser.is_exhausted() {
        let _: Nested<'_> = parser.parse_until_after(cssparser::Delimiter::Semicolon, |parser| {
            let name = parser.expect_ident()?.clone();
            parser.expect_colon()?;
            if name.eq_ignore_ascii_case("src") {
                source = first_readable(parser).or_else(|| source.take());
            } else if name.eq_ignore_ascii_case("unicode-range") {
                let start = parser.position();
                while parser.next().is_ok() {}
                latin = covers_latin(parser.slice_from(start));
            }
            Ok(())
        });
    }
    source.filter(|_| latin)
}

fn first_readable(parser: &mut Parser<'_, '_>) -> Option<String> {
    let mut found: Option<String> = None;
    let mut entry: Option<String> = None;
    let mut readable = true;
    while let Ok(token) = parser.next().cloned() {
        match token {
            Token::UnquotedUrl(url) => entry = Some(url.to_string()),
            Token::Function(name) if name.eq_ignore_ascii_case("url") => entry = quoted(parser),
            Token::Function(name) if name.eq_ignore_ascii_case("format") => {
                let format: Result<CowRcStr<'_>, ParseError<'_, ()>> =
                    parser.parse_nested_block(|parser| Ok(parser.expect_ident_or_string()?.clone()));
                readable = format.is_ok_and(|format| {
                    let format = format.to_ascii_lowercase();
                    ["woff", "truetype", "opentype"]
                        .iter()
                        .any(|known| format.starts_with(known))
                });
            }
            Token::Comma => {
                found = found.or_else(|| entry.take().filter(|_| readable));
                readable = true;
            }
            _ => {}
        }
    }
    found.or_else(|| entry.filter(|_| readable))
}

/// Whether a `unicode-range` covers the letter `a`.
fn covers_latin(ranges: &str) -> bool {
    ranges.split(',').any(|range| {
        let Some(range) = range.trim().get(2..) else {
            return false;
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bound = |text: &str, digit: &str| u32::from_str_radix(&text.trim().replace('?', digit), 16);
        match (bound(first, "0"), bound(last, "F")) {
            (Ok(first), Ok(last)) => (first..=last).contains(&u32::from('a')),
            _ => false,
        }
    })
}

/// The property whose value is being read, as far as it decides whether a `url()` is loaded.
#[derive(Default)]
struct Property {
    candidate: Option<String>,
    hacked: bool,
    name: Option<String>,
}

impl Property {
    fn observe(&mut self, token: &Token<'_>) {
        match token {
            Token::Ident(name) if self.name.is_none() => self.candidate = Some(name.to_ascii_lowercase()),
            Token::Colon if self.name.is_none() => self.name = self.candidate.take(),
            // `*property:` was understood by old versions of one browser only.
            Token::Delim('*') if self.name.is_none() => self.hacked = true,
            Token::Semicolon | Token::CurlyBracketBlock => *self = Self::default(),
            _ => {}
        }
    }

    fn loads(&self) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        !(self.hacked
            || name.starts_with('_')
            || matches!(name, "behavior" | "-ms-behavior" | "-moz-binding"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(css: &str) -> Vec<(String, Destination)> {
        let base = Url::parse("http://a.test/css/site.css").unwrap();
        let found = discover(css, &base).into_iter();
        found
            .map(|reference| (reference.url.path().to_owned(), reference.destination))
            .collect()
    }

    #[test]
    fn urls_imports_and_comments() {
        let css = r#"@charset "utf-8"; @import "one.css"; @import url(two.css) screen; @import url('three.css') print;
            @import "four.css" layer(base) supports(display: grid) (min-width: 10px); @namespace svg url(http://no.test/);
            /* url(comment.png) */ a:hover { background: #fff url( "../img/a.png" ) no-repeat; color: red }
            .b > c[href="url(no.png)"] { background-image: url(b\.png), url(data:image/png;base64,AA) }
            i { content: "url(string.png)"; filter: url(#shadow); *background: url(hack.png) }
            u { _background: url(hack.png); behavior: url(hack.htc); background: URL(c.png) }"#;
        let style = Destination::Style;
        let image = Destination::Image;
        let expected = [
            ("/css/one.css", style),
            ("/css/two.css", style),
            ("/css/four.css", style),
            ("/img/a.png", image),
            ("/css/b.png", image),
            ("/css/c.png", image),
        ];
        assert_eq!(found(css), expected.map(|(path, kind)| (path.to_owned(), kind)));
    }

    #[test]
    fn only_blocks_that_apply() {
        let css = "@media print { a { background: url(no.png) } } @media (min-width: 100px) { a { b: url(yes.png) } }
            @supports not (display: grid) { a { b: url(no.png) } } @layer x { @media screen { a { b: url(too.png) } } }
            .x { background: image-set('one.png' 1x, 'two.png' 2x) }";
        let paths: Vec<_> = found(css).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["/css/yes.png", "/css/too.png", "/css/one.png"]);
    }

    #[test]
    fn one_file_a_font() {
        let css = "@font-face { font-family: x; src: url(x.eot); src: url(x.eot?#iefix) format('embedded-opentype'),
              local('x'), url(x.woff2) format('woff2'), url(x.ttf) format('truetype'); }
            @font-face { src: url(cyrillic.woff2) format('woff2'); unicode-range: U+0400-045F, U+4?? }
            @font-face { src: url(latin.woff2) format('woff2'); unicode-range: U+0000-00FF, U+0131 }";
        let font = Destination::Font;
        assert_eq!(
            found(css),
            [
                ("/css/x.woff2".to_owned(), font),
                ("/css/latin.woff2".to_owned(), font)
            ]
        );
    }

    #[test]
    fn broken_sheets_end_quietly() {
        for css in [
            "@import",
            "a { b: url(",
            "a { b: url('x",
            "}}}} a { b: url(x) }",
            "@font-face { src: url(",
            "@media {",
        ] {
            let _ = found(css);
        }
        let deep = "(".repeat(100_000);
        assert!(found(&deep).is_empty());
    }
}
