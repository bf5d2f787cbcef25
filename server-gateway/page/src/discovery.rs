//! Discovery in HTML documents that arrive in pieces.
use std::sync::{Arc, atomic::AtomicUsize};

use parking_lot::Mutex;

use http::HeaderMap;
use lol_html::{
    AsciiCompatibleEncoding, MemorySettings, OutputSink, doc_text, element, end_tag,
    html_content::{TextChunk, TextType},
    send::{Element, HtmlRewriter, Settings},
    text,
};
use url::Url;

use crate::{
    ImageChoice, Initiator, Reference, Viewport, Vocabulary,
    charset::{self, EncodingConfidence, Transcoder},
    document::Document,
    markup::Markup,
};

/// Memory limit of the parser; a tag, or a depth of open elements, that exceeds it ends discovery. Pages
/// contain inline images of a few MiB in attributes.
const MAX_PARSER_MEMORY: usize = 16 * 1024 * 1024;

/// Bytes passed to the parser at once: the parser appends them to an incomplete tag, which counts as memory.
const STEP: usize = 64 * 1024;

/// Position of a document among the `srcdoc` frames of its page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nesting {
    /// Number of frames around the document.
    pub(crate) depth: usize,
    /// Number of the page's `srcdoc` frames so far.
    pub(crate) srcdocs: Arc<AtomicUsize>,
}

/// Finds the subresources of one HTML document while it arrives.
///
/// Each reference is returned by the [`write`] call that completes its tag (references of a style element:
/// the end tag; the icon, of which only the last declared one counts: the end of the document). Each URL is
/// returned once, and again if it becomes more important or certain. The complete result does not depend on
/// the division of the document into pieces.
///
/// Discovery ignores the contents of comments, `noscript` and `template`, like a browser with scripts
/// enabled, and also prefetches and media. Malformed markup never fails: if the parser stops, earlier results
/// remain valid.
///
/// [`write`]: Self::write
pub struct Discovery {
    document: Arc<Mutex<Document>>,
    transcoder: Transcoder,
    parser: Parser,
}

enum Parser {
    /// The encoding is still unknown.
    Waiting,
    Reading(Box<HtmlRewriter<'static, Discard>>),
    /// The parser failed, or the maximum number of references was found; it is not used again.
    Stopped,
}

/// The parser is a rewriter whose output is discarded.
struct Discard;

impl OutputSink for Discard {
    fn handle_chunk(&mut self, _: &[u8]) {}
}

impl Discovery {
    /// Starts discovery in the HTML document at `url`, displayed in `viewport`.
    ///
    /// `charset` is that of the `Content-Type` field; a byte order mark takes precedence over it, and without
    /// both the document's own declaration applies.
    pub fn new(url: &Url, charset: Option<&str>, viewport: Viewport) -> Self {
        Self::of(Initiator::page(url, &HeaderMap::new()), charset, viewport)
    }

    /// Starts discovery in the document that makes requests as `initiator`; adds the policies of the markup
    /// to `initiator`.
    pub fn of(initiator: Initiator, charset: Option<&str>, viewport: Viewport) -> Self {
        let base = initiator.url().clone();
        Self::nested(initiator, &base, charset, viewport, Nesting::default())
    }

    fn nested(
        initiator: Initiator,
        base: &Url,
        charset: Option<&str>,
        viewport: Viewport,
        nesting: Nesting,
    ) -> Self {
        Self {
            document: Arc::new(Mutex::new(Document::new(initiator, base, viewport, nesting))),
            transcoder: Transcoder::new(charset),
            parser: Parser::Waiting,
        }
    }

    /// Takes the document's next decoded bytes and returns the new references in document order.
    pub fn write(&mut self, html: &[u8]) -> Vec<Reference> {
        self.pass(html, false);
        self.document.lock().take_found()
    }

    /// Returns the images with several sizes since the last call; at most 64.
    pub fn take_choices(&mut self) -> Vec<ImageChoice> {
        self.document.lock().take_choices()
    }

    /// Returns the reference to `/favicon.ico`, which browsers request if the document declares no icon;
    /// `None` once it has declared one.
    pub fn default_icon(&self) -> Option<Reference> {
        self.document.lock().default_icon()
    }

    /// Returns the element types, classes and ids of the document so far, which selectors of style sheets can
    /// match.
    pub fn vocabulary(&self) -> Vocabulary {
        self.document.lock().vocabulary().clone()
    }

    /// Returns a handle to the document's markup, for its style sheets. From now on, fonts wait until the
    /// document and its style sheets use them.
    pub fn markup(&self) -> Markup {
        self.document.lock().styles().choose_fonts();
        Markup::new(Arc::clone(&self.document))
    }

    /// Ends discovery before the end of the document, whose rest may use any font.
    pub fn stop(self) {
        self.document.lock().styles().set_incomplete();
    }

    /// Ends the document and returns the remaining references.
    pub fn finish(mut self) -> Vec<Reference> {
        self.pass(&[], true);
        if let Parser::Reading(parser) = self.parser {
            // If the parser fails, the earlier results remain.
            let _ = parser.end();
        }
        self.document.lock().finish()
    }

    fn pass(&mut self, html: &[u8], last: bool) {
        let mut reader = Reader {
            document: &self.document,
            parser: &mut self.parser,
        };
        self.transcoder.write(html, last, &mut reader);
    }
}

/// Passes markup to the parser.
struct Reader<'a> {
    document: &'a Arc<Mutex<Document>>,
    parser: &'a mut Parser,
}

impl charset::Markup for Reader<'_> {
    fn begin(&mut self, confidence: EncodingConfidence) {
        self.document.lock().begin(confidence);
        *self.parser = Parser::Reading(Box::new(parser(self.document, confidence)));
    }

    fn text(&mut self, text: &[u8]) {
        for piece in text.chunks(STEP) {
            let Parser::Reading(parser) = self.parser else {
                return;
            };
            let failed = parser.write(piece).is_err();
            let mut document = self.document.lock();
            if failed || document.is_full() {
                *self.parser = Parser::Stopped;
                // The rest of the text may use any font.
                document.styles().set_incomplete();
            }
        }
    }
}

fn parser(document: &Arc<Mutex<Document>>, confidence: EncodingConfidence) -> HtmlRewriter<'static, Discard> {
    let on_element = {
        let document = Arc::clone(document);
        element!("*", move |element: &mut Element<'_, '_>| {
            let opened = document.lock().element(element);
            if let (Some(opened), Some(handlers)) = (opened, element.end_tag_handlers()) {
                let document = Arc::clone(&document);
                handlers.push(end_tag!(move |_| {
                    document.lock().close(opened);
                    Ok(())
                }));
            }
            Ok(())
        })
    };
    let on_style = {
        let document = Arc::clone(document);
        text!("style", move |chunk: &mut TextChunk<'_>| {
            document
                .lock()
                .style_text(chunk.as_str(), chunk.last_in_text_node());
            Ok(())
        })
    };
    let on_text = {
        let document = Arc::clone(document);
        doc_text!(move |chunk: &mut TextChunk<'_>| {
            // Not scripts, style sheets, titles, and the contents of `noscript`.
            if chunk.text_type() == TextType::Data {
                document.lock().text(chunk.as_str());
            }
            Ok(())
        })
    };
    let encoding = AsciiCompatibleEncoding::new(confidence.encoding());
    let settings = Settings::new_send()
        .append_element_content_handler(on_element)
        .append_element_content_handler(on_style)
        .append_document_content_handler(on_text)
        .with_memory_settings(MemorySettings::new().with_max_allowed_memory_usage(MAX_PARSER_MEMORY))
        .with_strict(false)
        .with_adjust_charset_on_meta_tag(confidence == EncodingConfidence::Tentative)
        .with_encoding(encoding.unwrap_or_else(AsciiCompatibleEncoding::utf_8));
    HtmlRewriter::new(settings, Discard)
}

/// Returns the subresources of the HTML document `html` at `url`, in document order: [`Discovery`] of the
/// complete document.
pub fn discover_html(html: &[u8], url: &Url, charset: Option<&str>, viewport: Viewport) -> Vec<Reference> {
    whole(Discovery::new(url, charset, viewport), html)
}

/// Returns the references of a `srcdoc` document that its own policies allow.
pub(crate) fn discover_nested(
    html: &str,
    document: Initiator,
    base: &Url,
    viewport: Viewport,
    nesting: Nesting,
) -> Vec<Reference> {
    let discovery = Discovery::nested(document.clone(), base, Some("utf-8"), viewport, nesting);
    let found = whole(discovery, html.as_bytes()).into_iter();
    found
        .filter_map(|reference| document.admit(reference, 0))
        .map(|reference| Reference {
            // Style sheets of the page do not apply to the frame.
            is_inline_background: false,
            ..reference
        })
        .collect()
}

fn whole(mut discovery: Discovery, html: &[u8]) -> Vec<Reference> {
    let mut found = discovery.write(html);
    found.extend(discovery.finish());
    found
}
