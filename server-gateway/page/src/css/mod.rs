//! References of style sheets: `@import`, fonts, and images in `url()`.
//!
//! Discovery does not match selectors against elements, and therefore also finds images and fonts that a
//! browser does not load because no element uses them.
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

/// Maximum depth of nested blocks; real style sheets nest about six deep, and each level uses stack.
const MAX_DEPTH: usize = 32;

/// Maximum number of images of inline styles that wait for elements; each new name is checked against them.
pub(crate) const MAX_WAITING: usize = 100;
/// Maximum number of waiting images of an external style sheet, which is checked with each piece of the
/// document.
pub(crate) const MAX_WAITING_OF_SHEET: usize = 1000;

/// Maximum length in bytes of a rule's selectors that are evaluated; longer ones count as matching.
const MAX_SELECTORS: usize = 4096;

type Parsed<'i, T> = Result<T, ParseError<'i, ()>>;

/// Returns the subresources of the style sheet `css` at `url`, in order.
///
/// `charset` is that of `Content-Type`; a byte order mark takes precedence over it, and it takes precedence
/// over `@charset`. Fonts and images are [`Likely`](Certainty::Likely): a browser loads them only if elements
/// use them. Relative URLs are resolved against `url`, which is also the referrer of the requests.
pub fn discover_css(css: &[u8], url: &Url, charset: Option<&str>, viewport: Viewport) -> Vec<Reference> {
    let (text, encoding) = charset::decode_sheet(css, charset, None);
    let base = Base {
        url: url.clone(),
        encoding,
    };
    discover_text(&text, Part::Sheet, &base, viewport)
}

/// Like [`discover_css`], for a style sheet of the document with this `vocabulary`: images of rules that
/// match none of its elements are [`Unlikely`](Certainty::Unlikely). The document should be complete.
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

/// Kinds of CSS text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Sheet,
    /// The declarations of a `style` attribute.
    Declarations,
}

/// An image of a rule whose selectors match no element of the document so far.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) reference: Reference,
    /// Selectors of the enclosing rules.
    selectors: Vec<String>,
}

impl Waiting {
    /// Returns true if matching elements have been added.
    pub(crate) fn may_match(&self, vocabulary: &Vocabulary) -> bool {
        let mut selectors = self.selectors.iter();
        selectors.all(|selectors| vocabulary::may_match(selectors, Some(vocabulary)))
    }
}

/// Returns the references of a `style` element for the elements known so far, and the images that wait for
/// further elements.
pub(crate) fn discover_inline(
    css: &str,
    base: &Base,
    viewport: Viewport,
    vocabulary: &Vocabulary,
) -> (Vec<Reference>, Vec<Waiting>) {
    Sheet::new(Part::Sheet, base, viewport, Some(vocabulary)).read_waiting(css, MAX_WAITING)
}

/// Like [`discover_inline`], for an external style sheet.
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

/// Returns the subresources of a decoded style sheet, `style` element or attribute.
pub(crate) fn discover_text(css: &str, part: Part, base: &Base, viewport: Viewport) -> Vec<Reference> {
    Sheet::new(part, base, viewport, None).read(css)
}

struct Sheet<'a> {
    base: &'a Base,
    viewport: Viewport,
    found: Vec<Reference>,
    /// True while `@import` is valid: before all other rules.
    imports: bool,
    vocabulary: Option<&'a Vocabulary>,
    /// True if an element may match the enclosing rules.
    matches: bool,
    /// Selectors of the enclosing rules, if images wait for elements, and these images.
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
        // Start of the current rule or declaration.
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
                // `url(x.png) \9` is a hack for one browser: all others ignore the declaration as invalid.
                Token::Ident(name) | Token::Dimension { unit: name, .. } if name.as_ref() == "\t" => {
                    self.found.truncate(before);
                }
                Token::ParenthesisBlock | Token::SquareBracketBlock => self.nested(parser, depth),
                _ => {}
            }
        }
    }

    /// Reads the block after `selectors`, or after the prelude of an at-rule that is treated as selectors.
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
            // Functions such as `linear-gradient()`, `cross-fade()` and `var()` with a fallback do not change
            // the property.
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
                // The statement `@layer a, b;` may occur between imports.
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
            // Print rules, and obsolete rules of single browsers.
            "page" | "-moz-document" => {
                prelude(parser);
            }
            // The preludes of keyframe blocks are not selectors.
            "keyframes" | "-webkit-keyframes" => {
                self.imports = false;
                if prelude(parser).1 {
                    let vocabulary = self.vocabulary.take();
                    self.nested(parser, depth);
                    self.vocabulary = vocabulary;
                }
            }
            // For example `@container` and `@scope`.
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

/// Returns the position after a block, read or skipped.
fn behind(parser: &mut Parser<'_, '_>) -> SourcePosition {
    parser.skip_whitespace();
    parser.position()
}

/// Skips to the end of an at-rule's prelude; returns the prelude, and true if a block follows (the parser's
/// last token).
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

/// Removes comments, which may occur anywhere in a prelude.
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

/// Reads the string in `url("…")`.
fn quoted(parser: &mut Parser<'_, '_>) -> Option<String> {
    let read: Parsed<'_, String> =
        parser.parse_nested_block(|parser| Ok(parser.expect_string()?.to_string()));
    read.ok()
}

#[cfg(test)]
mod tests;
