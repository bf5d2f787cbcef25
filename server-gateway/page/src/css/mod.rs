//! What a style sheet loads: `@import`, fonts, and the images that its `url()`s name.
//!
//! Selectors are not matched, so images and fonts are found that a browser would leave out because no element shows them.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "CSS has thirty kinds of tokens, of which each place here wants a few"
)]

mod font;
mod image_set;
mod import;
mod property;
mod supports;

use cssparser::{ParseError, Parser, ParserInput, SourcePosition, Token};
use url::Url;

use self::property::Property;
use crate::{
    Certainty, Destination, MAX_REFERENCES, Reference, Viewport, Vocabulary, charset, media, reference::Base,
    vocabulary,
};

/// Nested blocks followed; real sheets nest about six deep, and each level costs stack.
const MAX_DEPTH: usize = 32;

/// Images of inline styles that wait for elements; looking for these at every new name costs time.
pub(crate) const MAX_WAITING: usize = 100;
/// The same of a sheet of its own, which is looked at with every piece of the document.
pub(crate) const MAX_WAITING_OF_SHEET: usize = 1000;

/// Selectors of one rule that are looked at; longer ones count as matching.
const MAX_SELECTORS: usize = 4096;

type Parsed<'i, T> = Result<T, ParseError<'i, ()>>;

/// The sub-resources of the style sheet `css` at `url`, in order.
///
/// `charset` is the one of its `Content-Type`; a byte order mark counts more, its `@charset` less. Fonts and images are
/// [`Likely`](Certainty::Likely): only elements that use them make a browser load them. Relative addresses are resolved
/// against `url`, which is also what the requests have as referrer.
pub fn discover_css(css: &[u8], url: &Url, charset: Option<&str>, viewport: Viewport) -> Vec<Reference> {
    let (text, encoding) = charset::decode_sheet(css, charset, None);
    let base = Base {
        url: url.clone(),
        encoding,
    };
    discover_text(&text, Part::Sheet, &base, viewport)
}

/// As [`discover_css`], for the style sheet of a document whose markup is known by its `vocabulary`: images of rules that
/// match no element of it are [`Unlikely`](Certainty::Unlikely). The document should be complete.
pub fn discover_css_for(
    css: &[u8],
    url: &Url,
    charset: Option<&str>,
    viewport: Viewport,
    vocabulary: &Vocabulary,
) -> Vec<Reference> {
    let (text, encoding) = charset::decode_sheet(css, charset, None);
    let base = Base {
        url: url.clone(),
        encoding,
    };
    Sheet::new(Part::Sheet, &base, viewport, Some(vocabulary)).read(&text)
}

/// What a piece of CSS is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Sheet,
    /// The declarations of a `style` attribute.
    Declarations,
}

/// An image of a rule whose selectors match nothing that is known of the document so far.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) reference: Reference,
    /// The selectors of the rules around it.
    selectors: Vec<String>,
}

impl Waiting {
    /// Whether elements that match have come since.
    pub(crate) fn may_match(&self, vocabulary: &Vocabulary) -> bool {
        let mut selectors = self.selectors.iter();
        selectors.all(|selectors| vocabulary::may_match(selectors, Some(vocabulary)))
    }
}

/// What the `style` element of a document loads as far as its markup is known, and what else would be loaded with more
/// elements.
pub(crate) fn discover_inline(
    css: &str,
    base: &Base,
    viewport: Viewport,
    vocabulary: &Vocabulary,
) -> (Vec<Reference>, Vec<Waiting>) {
    Sheet::new(Part::Sheet, base, viewport, Some(vocabulary)).read_waiting(css, MAX_WAITING)
}

/// As [`discover_inline`], for a sheet of its own.
pub(crate) fn discover_sheet(
    css: &[u8],
    url: &Url,
    charset: Option<&str>,
    viewport: Viewport,
    vocabulary: &Vocabulary,
) -> (Vec<Reference>, Vec<Waiting>) {
    let (text, encoding) = charset::decode_sheet(css, charset, None);
    let base = Base {
        url: url.clone(),
        encoding,
    };
    Sheet::new(Part::Sheet, &base, viewport, Some(vocabulary)).read_waiting(&text, MAX_WAITING_OF_SHEET)
}

/// The sub-resources of a decoded sheet, `style` element or attribute.
pub(crate) fn discover_text(css: &str, part: Part, base: &Base, viewport: Viewport) -> Vec<Reference> {
    Sheet::new(part, base, viewport, None).read(css)
}

struct Sheet<'a> {
    base: &'a Base,
    viewport: Viewport,
    found: Vec<Reference>,
    /// Whether an `@import` still counts: they stand before all other rules.
    imports: bool,
    vocabulary: Option<&'a Vocabulary>,
    /// Whether an element may match the rules around what is being read.
    matches: bool,
    /// The selectors of the rules around, of a sheet whose images wait for elements, and these images.
    around: Vec<String>,
    waiting: Option<Vec<Waiting>>,
    most_waiting: usize,
}

impl<'a> Sheet<'a> {
    const fn new(part: Part, base: &'a Base, viewport: Viewport, vocabulary: Option<&'a Vocabulary>) -> Self {
        Self {
            base,
            viewport,
            found: Vec::new(),
            imports: matches!(part, Part::Sheet),
            vocabulary,
            matches: true,
            around: Vec::new(),
            waiting: None,
            most_waiting: MAX_WAITING,
        }
    }

    fn read(mut self, css: &str) -> Vec<Reference> {
        self.rules_of(css);
        self.found
    }

    fn read_waiting(mut self, css: &str, most: usize) -> (Vec<Reference>, Vec<Waiting>) {
        (self.waiting, self.most_waiting) = (Some(Vec::new()), most);
        self.rules_of(css);
        (self.found, self.waiting.unwrap_or_default())
    }

    fn rules_of(&mut self, css: &str) {
        let mut input = ParserInput::new(css);
        self.rules(&mut Parser::new(&mut input), 0);
    }

    fn rules(&mut self, parser: &mut Parser<'_, '_>, depth: usize) {
        let mut property = Property::default();
        // Where the rule or declaration begins that is being read.
        let mut start = parser.position();
        let mut before = self.found.len();
        while let Ok(token) = parser.next() {
            let token = token.clone();
            property.observe(&token);
            if self.found.len() >= MAX_REFERENCES {
                return;
            }
            match token {
                Token::AtKeyword(name) => {
                    self.at_rule(&name, parser, depth);
                    start = behind(parser);
                    before = self.found.len();
                }
                Token::UnquotedUrl(url) if property.loads() => self.add_image(&url),
                Token::Function(name) => self.function(&name, &property, parser, depth),
                Token::CurlyBracketBlock => {
                    self.imports = false;
                    let selectors = without_comments(parser.slice_from(start).trim_end_matches('{'));
                    self.rule(selectors, parser, depth);
                    start = behind(parser);
                    before = self.found.len();
                }
                Token::Semicolon => {
                    start = parser.position();
                    before = self.found.len();
                }
                // `url(x.png) \9` was for one browser only: to all others the declaration is invalid.
                Token::Ident(name) | Token::Dimension { unit: name, .. } if name.as_ref() == "\t" => {
                    self.found.truncate(before);
                }
                Token::ParenthesisBlock | Token::SquareBracketBlock => self.nested(parser, depth),
                _ => {}
            }
        }
    }

    /// The block behind `selectors`, or behind the prelude of an at-rule that is read like one.
    fn rule(&mut self, selectors: String, parser: &mut Parser<'_, '_>, depth: usize) {
        let around = self.matches;
        let matches = selectors.len() > MAX_SELECTORS || vocabulary::may_match(&selectors, self.vocabulary);
        self.matches = around && matches;
        self.around.push(selectors);
        self.nested(parser, depth);
        self.around.pop();
        self.matches = around;
    }

    fn nested(&mut self, parser: &mut Parser<'_, '_>, depth: usize) {
        if depth < MAX_DEPTH {
            let _: Parsed<'_, ()> = parser.parse_nested_block(|parser| {
                self.rules(parser, depth + 1);
                Ok(())
            });
        }
    }

    fn function(&mut self, name: &str, property: &Property, parser: &mut Parser<'_, '_>, depth: usize) {
        match name.to_ascii_lowercase().as_str() {
            "url" | "src" => {
                if let (Some(url), true) = (quoted(parser), property.loads()) {
                    self.add_image(&url);
                }
            }
            "image-set" | "-webkit-image-set" => {
                let chosen = image_set::choose(parser, self.viewport);
                if let (Some(url), true) = (chosen, property.loads()) {
                    self.add_image(&url);
                }
            }
            // Such as `linear-gradient()`, `cross-fade()` and `var()` with a fallback: the property stays the same.
            _ => self.arguments(property, parser, depth),
        }
    }

    fn arguments(&mut self, property: &Property, parser: &mut Parser<'_, '_>, depth: usize) {
        if depth >= MAX_DEPTH {
            return;
        }
        let _: Parsed<'_, ()> = parser.parse_nested_block(|parser| {
            while let Ok(token) = parser.next().cloned() {
                match token {
                    Token::UnquotedUrl(url) if property.loads() => self.add_image(&url),
                    Token::Function(name) => self.function(&name, property, parser, depth + 1),
                    _ => {}
                }
            }
            Ok(())
        });
    }

    fn at_rule(&mut self, name: &str, parser: &mut Parser<'_, '_>, depth: usize) {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "import" => {
                let import = import::read(parser, self.viewport);
                if let (Some((target, destination)), true) = (import, self.imports) {
                    self.add(&target, destination);
                }
            }
            "charset" | "namespace" => {
                prelude(parser);
            }
            "layer" => {
                // The statement `@layer a, b;` may stand among imports.
                if prelude(parser).1 {
                    self.imports = false;
                    self.nested(parser, depth);
                }
            }
            "media" => {
                let (query, block) = prelude(parser);
                self.imports = false;
                if block && media::applies(&query, self.viewport) {
                    self.nested(parser, depth);
                }
            }
            "supports" => {
                let (condition, block) = prelude(parser);
                self.imports = false;
                if block && supports::holds(&condition) {
                    self.nested(parser, depth);
                }
            }
            "font-face" => {
                self.imports = false;
                if prelude(parser).1 {
                    let font =
                        parser.parse_nested_block(|parser| Ok::<_, ParseError<'_, ()>>(font::source(parser)));
                    if let Ok(Some(url)) = font {
                        self.add(&url, Destination::Font);
                    }
                }
            }
            // For paper, and rules of single browsers of the past.
            "page" | "-moz-document" => {
                prelude(parser);
            }
            // What stands before the blocks of keyframes are no selectors.
            "keyframes" | "-webkit-keyframes" => {
                self.imports = false;
                if prelude(parser).1 {
                    let vocabulary = self.vocabulary.take();
                    self.nested(parser, depth);
                    self.vocabulary = vocabulary;
                }
            }
            // Such as `@container` and `@scope`.
            _ => {
                self.imports = false;
                if prelude(parser).1 {
                    self.nested(parser, depth);
                }
            }
        }
    }

    fn add_image(&mut self, target: &str) {
        let Some(url) = self.base.resolve(target) else {
            return;
        };
        let image = Reference::new(url, Destination::Image);
        if self.matches {
            self.found.push(image.with_certainty(Certainty::Likely));
            return;
        }
        let reference = image.with_certainty(Certainty::Unlikely);
        match &mut self.waiting {
            Some(waiting) if waiting.len() < self.most_waiting => waiting.push(Waiting {
                reference,
                selectors: self.around.clone(),
            }),
            Some(_) | None => self.found.push(reference),
        }
    }

    fn add(&mut self, target: &str, destination: Destination) {
        let url = self.base.resolve(target);
        self.found.extend(url.map(|url| Reference::new(url, destination)));
    }
}

/// The position behind a block, whether it was read or passed over.
fn behind(parser: &mut Parser<'_, '_>) -> SourcePosition {
    parser.skip_whitespace();
    parser.position()
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
    let text = parser.slice_from(start).trim_end_matches([';', '{']);
    (without_comments(text), block)
}

/// Comments may stand anywhere in a prelude, and mean nothing.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        out.push(' ');
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

/// The string in `url("…")`.
fn quoted(parser: &mut Parser<'_, '_>) -> Option<String> {
    let read: Parsed<'_, String> =
        parser.parse_nested_block(|parser| Ok(parser.expect_string()?.to_string()));
    read.ok()
}

#[cfg(test)]
mod tests;
