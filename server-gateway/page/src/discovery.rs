//! Discovery in an HTML document that arrives piece by piece.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use lol_html::{
    AsciiCompatibleEncoding, MemorySettings, OutputSink, element, end_tag,
    html_content::TextChunk,
    send::{Element, HtmlRewriter, Settings},
    text,
};
use url::Url;

use crate::{
    ImageChoice, Initiator, Reference, Viewport, Vocabulary,
    charset::{self, Known, Transcoder},
    document::Document,
    markup::Markup,
};

/// References that are taken from one document, those of its `srcdoc` frames included: several times what the largest
/// pages have.
pub const MAX_REFERENCES: usize = 5000;
/// Memory of the parser; a tag, or a depth of open elements, that does not fit ends discovery. Pages carry inline images of
/// a few MiB in attributes.
const MAX_PARSER_MEMORY: usize = 16 * 1024 * 1024;

/// Bytes that the parser gets at once: it appends them to a tag that is not complete yet, which counts as memory.
const STEP: usize = 64 * 1024;

/// Finds the sub-resources of one HTML document while it arrives.
///
/// Each reference comes out of the [`write`] call that brought the end of its tag (of the style element, for what that
/// names; the icon, of which only the last declared counts, at the end), each URL once, and once more when it turns out to
/// be more important or certain than before. What comes out in all does not depend on how the document is cut.
///
/// What stands in comments, `noscript` and `template` is left out, as a browser with scripts leaves it out, and so are
/// prefetches and media. Malformed markup never fails: where the parser gives up, what was found before stays found.
///
/// [`write`]: Self::write
pub struct Discovery {
    document: Arc<Mutex<Document>>,
    transcoder: Transcoder,
    parser: Parser,
}

enum Parser {
    /// The encoding is not known yet.
    Waiting,
    Reading(Box<HtmlRewriter<'static, Discard>>),
    /// It gave up, or all references were found that are taken: it is never used again.
    Stopped,
}

/// The parser is a rewriter; the rewritten document is of no interest.
struct Discard;

impl OutputSink for Discard {
    fn handle_chunk(&mut self, _: &[u8]) {}
}

impl Discovery {
    /// Begins the HTML document at `url`, displayed in `viewport`.
    ///
    /// `charset` is the one of the `Content-Type` header; a byte order mark counts more, and without both the document's own
    /// declaration counts.
    pub fn new(url: &Url, charset: Option<&str>, viewport: Viewport) -> Self {
        Self::of(Initiator::page(url, &HeaderMap::new()), charset, viewport)
    }

    /// Begins the HTML document that makes requests as `initiator`, which gets to know the policies in the markup.
    pub fn of(initiator: Initiator, charset: Option<&str>, viewport: Viewport) -> Self {
        let base = initiator.url().clone();
        Self::nested(initiator, &base, charset, viewport, 0)
    }

    fn nested(
        initiator: Initiator,
        base: &Url,
        charset: Option<&str>,
        viewport: Viewport,
        depth: usize,
    ) -> Self {
        Self {
            document: Arc::new(Mutex::new(Document::new(initiator, base, viewport, depth))),
            transcoder: Transcoder::new(charset),
            parser: Parser::Waiting,
        }
    }

    /// Takes the document's next decoded bytes and returns what they add, in document order.
    pub fn write(&mut self, html: &[u8]) -> Vec<Reference> {
        self.pass(html, false);
        lock(&self.document).take_found()
    }

    /// Images of the document that come in several sizes, since the last call; at most 64.
    pub fn take_choices(&mut self) -> Vec<ImageChoice> {
        lock(&self.document).take_choices()
    }

    /// What browsers ask for if the document names no icon at all: `/favicon.ico`. `None` as soon as it named one.
    pub fn default_icon(&self) -> Option<Reference> {
        lock(&self.document).default_icon()
    }

    /// The element types, classes and ids that the document has so far: what its style sheets can match.
    pub fn vocabulary(&self) -> Vocabulary {
        lock(&self.document).vocabulary().clone()
    }

    /// The document's markup, for its style sheets.
    pub fn markup(&self) -> Markup {
        Markup::new(Arc::clone(&self.document))
    }

    /// Ends the document and returns what was still open.
    pub fn finish(mut self) -> Vec<Reference> {
        self.pass(&[], true);
        if let Parser::Reading(parser) = self.parser {
            // A page that the parser gives up on keeps what was found before.
            let _ = parser.end();
        }
        lock(&self.document).finish()
    }

    fn pass(&mut self, html: &[u8], last: bool) {
        let mut reader = Reader {
            document: &self.document,
            parser: &mut self.parser,
        };
        self.transcoder.write(html, last, &mut reader);
    }
}

/// Hands markup to the parser.
struct Reader<'a> {
    document: &'a Arc<Mutex<Document>>,
    parser: &'a mut Parser,
}

impl charset::Markup for Reader<'_> {
    fn begin(&mut self, known: Known) {
        lock(self.document).begin(known);
        *self.parser = Parser::Reading(Box::new(parser(self.document, known)));
    }

    fn text(&mut self, text: &[u8]) {
        for piece in text.chunks(STEP) {
            let Parser::Reading(parser) = self.parser else {
                return;
            };
            let failed = parser.write(piece).is_err();
            if failed || lock(self.document).is_full() {
                *self.parser = Parser::Stopped;
            }
        }
    }
}

fn parser(document: &Arc<Mutex<Document>>, known: Known) -> HtmlRewriter<'static, Discard> {
    let on_element = {
        let document = Arc::clone(document);
        element!("*", move |element: &mut Element<'_, '_>| {
            let opened = lock(&document).element(element);
            if let (Some(opened), Some(handlers)) = (opened, element.end_tag_handlers()) {
                let document = Arc::clone(&document);
                handlers.push(end_tag!(move |_| {
                    lock(&document).close(opened);
                    Ok(())
                }));
            }
            Ok(())
        })
    };
    let on_style = {
        let document = Arc::clone(document);
        text!("style", move |chunk: &mut TextChunk<'_>| {
            lock(&document).style_text(chunk.as_str(), chunk.last_in_text_node());
            Ok(())
        })
    };
    let encoding = AsciiCompatibleEncoding::new(known.encoding());
    let settings = Settings::new_send()
        .append_element_content_handler(on_element)
        .append_element_content_handler(on_style)
        .with_memory_settings(MemorySettings::new().with_max_allowed_memory_usage(MAX_PARSER_MEMORY))
        .with_strict(false)
        .with_adjust_charset_on_meta_tag(known == Known::Tentative)
        .with_encoding(encoding.unwrap_or_else(AsciiCompatibleEncoding::utf_8));
    HtmlRewriter::new(settings, Discard)
}

/// The sub-resources of the HTML document `html` at `url`, in document order: as [`Discovery`] with the whole document at
/// once.
pub fn discover_html(html: &[u8], url: &Url, charset: Option<&str>, viewport: Viewport) -> Vec<Reference> {
    whole(Discovery::new(url, charset, viewport), html)
}

/// Those of a `srcdoc` frame's document, as far as its own policies let them through.
pub(crate) fn discover_nested(
    html: &str,
    document: Initiator,
    base: &Url,
    viewport: Viewport,
    depth: usize,
) -> Vec<Reference> {
    let discovery = Discovery::nested(document.clone(), base, Some("utf-8"), viewport, depth);
    let found = whole(discovery, html.as_bytes()).into_iter();
    found
        .filter_map(|reference| document.admit(reference, 0))
        .collect()
}

fn whole(mut discovery: Discovery, html: &[u8]) -> Vec<Reference> {
    let mut found = discovery.write(html);
    found.extend(discovery.finish());
    found
}

fn lock(document: &Mutex<Document>) -> MutexGuard<'_, Document> {
    document.lock().unwrap_or_else(PoisonError::into_inner)
}
