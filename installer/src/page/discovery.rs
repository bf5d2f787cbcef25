//! Discovery in an HTML document that arrives piece by piece.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use encoding_rs::Encoding;
use lol_html::{
    AsciiCompatibleEncoding, MemorySettings, OutputSink, element, end_tag,
    html_content::TextChunk,
    send::{Element, HtmlRewriter, Settings},
    text,
};
use url::Url;

use super::{Reference, html::Page};

/// Memory of the parser; a tag that does not fit ends discovery. Pages carry inline images of a few MiB in attributes.
const MAX_PARSER_MEMORY: usize = 16 * 1024 * 1024;

/// Finds the sub-resources of one HTML document while it arrives: each reference comes out of the [`write`] call that
/// brought the end of its tag (of the style element, for what that names; the icon, of which only the last declared
/// counts, at the end). What comes out in all does not depend on how the document is cut.
///
/// [`write`]: Self::write
pub struct Discovery {
    page: Arc<Mutex<Page>>,
    /// `None` once the parser gave up: what was found before stays found.
    parser: Option<HtmlRewriter<'static, Discard>>,
}

/// The parser is a rewriter; the rewritten document is of no interest.
struct Discard;

impl OutputSink for Discard {
    fn handle_chunk(&mut self, _: &[u8]) {}
}

impl Discovery {
    /// Begins the HTML document at `url`.
    ///
    /// `charset` is the one of the `Content-Type` header; without it the document's own declaration counts. What stands
    /// in comments, `noscript` and `template` is left out, as a browser with scripts leaves it out. Lazy images are in:
    /// without layout it cannot be told which are near the viewport.
    pub fn new(url: &Url, charset: Option<&str>) -> Self {
        Self::nested(url, charset, 0)
    }

    /// As [`new`](Self::new), in so many `srcdoc` frames.
    pub(super) fn nested(url: &Url, charset: Option<&str>, depth: usize) -> Self {
        let page = Arc::new(Mutex::new(Page::new(url.clone(), depth)));
        let on_element = {
            let page = Arc::clone(&page);
            element!("*", move |element: &mut Element<'_, '_>| {
                let opened = lock(&page).element(element);
                if let (Some(opened), Some(handlers)) = (opened, element.end_tag_handlers()) {
                    let page = Arc::clone(&page);
                    handlers.push(end_tag!(move |_| {
                        lock(&page).close(opened);
                        Ok(())
                    }));
                }
                Ok(())
            })
        };
        let on_style = {
            let page = Arc::clone(&page);
            text!("style", move |chunk: &mut TextChunk<'_>| {
                lock(&page).style_text(chunk.as_str(), chunk.last_in_text_node());
                Ok(())
            })
        };
        let encoding = charset
            .and_then(|charset| Encoding::for_label(charset.as_bytes()))
            .and_then(AsciiCompatibleEncoding::new);
        let settings = Settings::new_send()
            .append_element_content_handler(on_element)
            .append_element_content_handler(on_style)
            .with_memory_settings(MemorySettings::new().with_max_allowed_memory_usage(MAX_PARSER_MEMORY))
            .with_strict(false)
            .with_adjust_charset_on_meta_tag(encoding.is_none())
            .with_encoding(encoding.unwrap_or_else(AsciiCompatibleEncoding::utf_8));
        Self {
            page,
            parser: Some(HtmlRewriter::new(settings, Discard)),
        }
    }

    /// Takes the document's next bytes and returns what they add, in document order.
    pub fn write(&mut self, html: &[u8]) -> Vec<Reference> {
        if self
            .parser
            .as_mut()
            .is_some_and(|parser| parser.write(html).is_err())
        {
            self.parser = None;
        }
        lock(&self.page).take_found()
    }

    /// Ends the document and returns what was still open.
    pub fn finish(mut self) -> Vec<Reference> {
        if let Some(parser) = self.parser.take() {
            // A page that the parser gives up on keeps what was found before.
            let _ = parser.end();
        }
        lock(&self.page).finish()
    }
}

/// The sub-resources of the HTML document `html` at `url`, in document order; as [`Discovery`] with the whole document
/// at once.
pub fn discover(html: &[u8], url: &Url, charset: Option<&str>) -> Vec<Reference> {
    discover_nested(html, url, charset, 0)
}

pub(super) fn discover_nested(html: &[u8], url: &Url, charset: Option<&str>, depth: usize) -> Vec<Reference> {
    let mut discovery = Discovery::nested(url, charset, depth);
    let mut found = discovery.write(html);
    found.extend(discovery.finish());
    found
}

fn lock(page: &Mutex<Page>) -> MutexGuard<'_, Page> {
    page.lock().unwrap_or_else(PoisonError::into_inner)
}
