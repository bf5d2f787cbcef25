//! References of style sheets: `@import`, fonts, and images in `url()`.
//!
//! Discovery does not match selectors against elements, and therefore also finds images and fonts that a
//! browser does not load because no element uses them.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "CSS has thirty kinds of tokens, of which each place here wants a few"
)]

mod at_rule;
mod background;
mod font;
mod image_set;
mod import;
mod property;
mod supports;
mod syntax;
mod waiting;

use std::sync::Arc;

use cssparser::{ParseError, Parser, ParserInput, SourcePosition, Token};
use url::Url;

pub(crate) use self::waiting::Waiting;
use self::{
    background::{Backgrounds, ImagesBefore},
    property::Property,
    syntax::{behind, prelude, quoted, without_comments},
};
use crate::{
    Certainty, Destination, MAX_REFERENCES, Reference, Viewport, Vocabulary, charset,
    fonts::{self, Declarations, SheetFonts},
    reference::Base,
    vocabulary,
};

/// Maximum depth of nested blocks; real style sheets nest about six deep, and each level uses stack.
const MAX_DEPTH: usize = 32;

/// Maximum number of images of inline styles that wait for elements; each new name is checked against them.
pub(crate) const MAX_WAITING: usize = 100;
/// Maximum number of waiting images of an external style sheet, which is checked with each piece of the
/// document.
pub(crate) const MAX_WAITING_OF_SHEET: usize = 1000;

/// Maximum length in bytes of a rule's selectors that are evaluated; longer ones are dropped and count as matching.
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

/// Objects of a style sheet for the elements known so far.
#[derive(Debug, Default)]
pub(crate) struct Discovered {
    pub(crate) references: Vec<Reference>,
    /// Images that wait for further elements.
    pub(crate) waiting: Vec<Waiting>,
    /// The fonts, unless they are among the references.
    pub(crate) fonts: SheetFonts,
    /// Selectors of the rules that override backgrounds of `style` attributes.
    pub(crate) overrides: Vec<Arc<str>>,
}

/// Returns the objects of an inline style sheet or of declarations; if `fonts` are chosen by their use, these
/// apart.
pub(crate) fn discover_inline(
    css: &str,
    part: Part,
    base: &Base,
    viewport: Viewport,
    vocabulary: &Vocabulary,
    fonts: bool,
) -> Discovered {
    let mut sheet = Sheet::new(part, base, viewport, Some(vocabulary));
    sheet.fonts = fonts.then(SheetFonts::default);
    sheet.read_waiting(css, MAX_WAITING)
}

/// Like [`discover_inline`], for an external style sheet.
pub(crate) fn discover_sheet(
    css: &[u8],
    url: &Url,
    charset: Option<&str>,
    viewport: Viewport,
    vocabulary: &Vocabulary,
) -> Discovered {
    let (text, encoding) = charset::decode_sheet(css, charset, None);
    let base = Base {
        url: url.clone(),
        encoding,
    };
    let mut sheet = Sheet::new(Part::Sheet, &base, viewport, Some(vocabulary));
    sheet.fonts = Some(SheetFonts::default());
    sheet.read_waiting(&text, MAX_WAITING_OF_SHEET)
}

/// Returns the subresources of a decoded style sheet, `style` element or attribute.
pub(crate) fn discover_text(css: &str, part: Part, base: &Base, viewport: Viewport) -> Vec<Reference> {
    Sheet::new(part, base, viewport, None).read(css)
}

struct Sheet<'a> {
    part: Part,
    base: &'a Base,
    viewport: Viewport,
    found: Vec<Reference>,
    /// True while `@import` is valid: before all other rules.
    imports: bool,
    /// True if the enclosing at-rules apply to all elements, in the order of the rules.
    is_ordered: bool,
    vocabulary: Option<&'a Vocabulary>,
    /// True if an element may match the enclosing rules.
    matches: bool,
    /// Selectors of the enclosing rules, if images wait for elements, and these images.
    around: Vec<Arc<str>>,
    waiting: Option<Vec<Waiting>>,
    most_waiting: usize,
    /// Fonts, if these are chosen by their use, and the font properties of the current rule.
    fonts: Option<SheetFonts>,
    declarations: Declarations,
    backgrounds: Backgrounds,
}

impl<'a> Sheet<'a> {
    fn new(part: Part, base: &'a Base, viewport: Viewport, vocabulary: Option<&'a Vocabulary>) -> Self {
        Self {
            part,
            base,
            viewport,
            found: Vec::new(),
            imports: matches!(part, Part::Sheet),
            is_ordered: true,
            vocabulary,
            matches: true,
            around: Vec::new(),
            waiting: None,
            most_waiting: MAX_WAITING,
            fonts: None,
            declarations: Declarations::default(),
            backgrounds: Backgrounds::default(),
        }
    }

    fn read(mut self, css: &str) -> Vec<Reference> {
        self.rules_of(css);
        self.found
    }

    fn read_waiting(mut self, css: &str, most: usize) -> Discovered {
        (self.waiting, self.most_waiting) = (Some(Vec::new()), most);
        self.rules_of(css);
        self.end_declarations();
        let mut waiting = self.waiting.unwrap_or_default();
        waiting.retain(|waiting| !waiting.is_overridden);
        Discovered {
            references: self.found,
            waiting,
            fonts: self.fonts.unwrap_or_default(),
            overrides: self.backgrounds.overrides,
        }
    }

    fn rules_of(&mut self, css: &str) {
        let mut input = ParserInput::new(css);
        self.rules(&mut Parser::new(&mut input), 0);
    }

    fn rules(&mut self, parser: &mut Parser<'_, '_>, depth: usize) {
        let mut property = Property::default();
        // Start of the current rule or declaration.
        let mut start = parser.position();
        let mut before = self.images();
        loop {
            let end = parser.position();
            let Ok(token) = parser.next().cloned() else {
                return self.declare(&property, parser, end, before);
            };
            if self.found.len() >= MAX_REFERENCES {
                return self.cut();
            }
            if matches!(token, Token::Semicolon) {
                self.declare(&property, parser, end, before);
            }
            property.observe(&token, parser.position());
            let ends = match token {
                Token::AtKeyword(name) => {
                    self.at_rule(&name, parser, depth);
                    true
                }
                Token::CurlyBracketBlock => {
                    let selectors = without_comments(parser.slice_from(start).trim_end_matches('{'));
                    self.rule(selectors, parser, depth);
                    true
                }
                Token::Semicolon => true,
                // `url(x.png) \9` is a hack for one browser: all others ignore the declaration as invalid.
                Token::Ident(name) | Token::Dimension { unit: name, .. } if name.as_ref() == "\t" => {
                    self.found.truncate(before.found);
                    false
                }
                token => {
                    self.value(&token, &property, parser, depth);
                    false
                }
            };
            if ends {
                start = behind(parser);
                before = self.images();
            }
        }
    }

    /// Reads a token of a value.
    fn value(&mut self, token: &Token<'_>, property: &Property, parser: &mut Parser<'_, '_>, depth: usize) {
        match token {
            Token::UnquotedUrl(url) if property.loads() => self.add_image(url),
            Token::Function(name) => self.function(name, property, parser, depth),
            Token::ParenthesisBlock | Token::SquareBracketBlock => self.nested(parser, depth),
            _ => {}
        }
    }

    /// Reads the block after `selectors`, or after the prelude of an at-rule that is treated as selectors.
    fn rule(&mut self, mut selectors: String, parser: &mut Parser<'_, '_>, depth: usize) {
        self.imports = false;
        if selectors.len() > MAX_SELECTORS {
            // No selectors match everything.
            selectors.clear();
        }
        let around = self.matches;
        self.matches = around && vocabulary::may_match(&selectors, self.vocabulary);
        self.around.push(selectors.trim().into());
        let outer = std::mem::take(&mut self.declarations);
        self.nested(parser, depth);
        self.end_declarations();
        self.declarations = outer;
        self.around.pop();
        self.matches = around;
    }

    /// Records a declaration of a font or a background; it ended at `end`.
    fn declare(
        &mut self,
        property: &Property,
        parser: &Parser<'_, '_>,
        end: SourcePosition,
        before: ImagesBefore,
    ) {
        let Some((name, start)) = property.value().filter(|(_, start)| *start <= end) else {
            return;
        };
        let value = parser.slice(start..end);
        if matches!(name, "background" | "background-image") {
            self.declare_background(value, before);
        } else if self.fonts.is_some() && fonts::is_relevant(name) {
            self.declarations.add(name, &without_comments(value));
        }
    }

    fn end_declarations(&mut self) {
        let declarations = std::mem::take(&mut self.declarations);
        if let (Some(fonts), false) = (&mut self.fonts, declarations.is_empty()) {
            fonts.add_rule(&self.around, declarations);
        }
    }

    /// Records that a part of the style sheet is not read.
    const fn cut(&mut self) {
        if let Some(fonts) = &mut self.fonts {
            fonts.is_cut = true;
        }
    }

    fn nested(&mut self, parser: &mut Parser<'_, '_>, depth: usize) {
        if depth < MAX_DEPTH {
            let _: Parsed<'_, ()> = parser.parse_nested_block(|parser| {
                self.rules(parser, depth + 1);
                Ok(())
            });
        } else {
            self.cut();
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
                is_overridden: false,
            }),
            Some(_) | None => self.found.push(reference),
        }
    }

    fn add(&mut self, target: &str, destination: Destination) {
        let url = self.base.resolve(target);
        self.found.extend(url.map(|url| Reference::new(url, destination)));
    }
}

#[cfg(test)]
mod tests;
