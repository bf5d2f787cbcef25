//! Style sheets of a document that is still arriving: selection of the images and fonts that the document
//! displays.
use std::sync::Arc;

use parking_lot::Mutex;

use url::Url;

use crate::{
    Reference,
    css::{self, Waiting},
    document::Document,
    fonts::Face,
    reference::Certainty,
};

/// Markup of a document, which grows while its [`Discovery`](crate::Discovery) receives data.
#[derive(Clone)]
pub struct Markup {
    document: Arc<Mutex<Document>>,
}

/// Images and fonts of a style sheet that nothing in the document displays so far.
#[derive(Debug, Default)]
pub struct PendingReferences {
    waiting: Vec<Waiting>,
    fonts: Vec<Face>,
    /// Size of the vocabulary at the last comparison.
    compared: usize,
}

impl PendingReferences {
    /// Returns true if nothing is pending.
    pub const fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.fonts.is_empty()
    }
}

impl Markup {
    pub(crate) const fn new(document: Arc<Mutex<Document>>) -> Self {
        Self { document }
    }

    /// Returns the subresources of the document's style sheet `css` at `url`, like
    /// [`discover_css`](crate::discover_css), without the images and fonts that nothing displays so far: these
    /// may be [displayed](Self::displayed) later, and so may fonts of other style sheets. At most 1000 images
    /// wait; of further images, only those that an element already displays are returned.
    pub fn sheet(&self, css: &[u8], url: &Url, charset: Option<&str>) -> (Vec<Reference>, PendingReferences) {
        let (viewport, vocabulary) = {
            let document = self.document.lock();
            (document.viewport(), document.vocabulary().clone())
        };
        let discovered = css::discover_sheet(css, url, charset, viewport, &vocabulary);
        let mut found = discovered.references;
        found.retain(|reference| reference.certainty != Certainty::Unlikely);
        let mut pending = PendingReferences {
            waiting: discovered.waiting,
            fonts: Vec::new(),
            compared: vocabulary.size(),
        };
        let used = {
            let mut document = self.document.lock();
            document.styles().add_overrides(discovered.overrides);
            pending.fonts = document.styles().add_sheet(discovered.fonts);
            document.styles().take_used(&mut pending.fonts)
        };
        let images = found
            .iter()
            .position(|reference| reference.destination.is_picture());
        let before_images = images.unwrap_or(found.len());
        found.splice(before_images..before_images, used);
        (found, pending)
    }

    /// Removes and returns the images for which elements have been added, and the fonts that are used now.
    pub fn displayed(&self, pending: &mut PendingReferences) -> Vec<Reference> {
        let mut document = self.document.lock();
        let mut found = document.styles().take_used(&mut pending.fonts);
        let size = document.vocabulary().size();
        if pending.waiting.is_empty() || size == pending.compared {
            return found;
        }
        pending.compared = size;
        let costs = pending.waiting.iter().map(Waiting::cost);
        if !document.styles().take_budget(costs) {
            return found;
        }
        let vocabulary = document.vocabulary();
        let (matching, waiting) = std::mem::take(&mut pending.waiting)
            .into_iter()
            .partition(|waiting: &Waiting| waiting.may_match(vocabulary));
        pending.waiting = waiting;
        let likely = |waiting: Waiting| waiting.reference.with_certainty(Certainty::Likely);
        found.extend(matching.into_iter().map(likely));
        found
    }

    /// Records that a style sheet of the document is not known, or only a part of it: the sheet may use any font,
    /// so fonts that cover Latin letters no longer wait.
    pub fn lack_style_sheet(&self) {
        self.document.lock().styles().set_incomplete();
    }

    /// Returns the backgrounds of `style` attributes that style sheets override for all their elements since the last call.
    pub fn overridden(&self) -> Vec<Url> {
        self.document.lock().styles().take_overridden()
    }

    /// Returns the fonts of the document's inline style sheets that its external ones use since the last call.
    pub fn inline_fonts(&self) -> Vec<Reference> {
        self.document.lock().take_used_fonts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Discovery, Viewport};

    fn paths(found: &[Reference]) -> Vec<&str> {
        found.iter().map(|reference| reference.url.path()).collect()
    }

    #[test]
    fn background_images_wait_for_matching_elements() {
        let page = Url::parse("http://a.test/").unwrap();
        let mut discovery = Discovery::new(&page, None, Viewport::default());
        let markup = discovery.markup();
        discovery.write(b"<div class=box>Text");
        let css = b"@import 'more.css'; @font-face { font-family: x; src: url(f.woff) }
            .box { background: url(1.png); font-family: x }
            .late { background: url(2.png) } .never { background: url(3.png) } .box:hover { background: url(4.png) }";
        let sheet = Url::parse("http://a.test/css/main.css").unwrap();
        let (found, mut pending) = markup.sheet(css, &sheet, None);
        assert_eq!(paths(&found), ["/css/more.css", "/css/f.woff", "/css/1.png"]);
        assert!(markup.displayed(&mut pending).is_empty());
        discovery.write(b"<p class=other>");
        assert!(markup.displayed(&mut pending).is_empty());
        discovery.write(b"<p class='x late'>");
        assert_eq!(paths(&markup.displayed(&mut pending)), ["/css/2.png"]);
        discovery.finish();
        assert!(markup.displayed(&mut pending).is_empty() && !pending.is_empty());
        // A style sheet after the document's end is compared with the complete document.
        let (found, pending) = markup.sheet(b".late { background: url(5.png) }", &sheet, None);
        assert_eq!((paths(&found), pending.is_empty()), (vec!["/css/5.png"], true));
    }

    #[test]
    fn waiting_images_are_bounded() {
        let page = Url::parse("http://a.test/").unwrap();
        let discovery = Discovery::new(&page, None, Viewport::default());
        let css: String = (0..2000)
            .map(|n| format!(".c{n} {{ background: url({n}.png) }}"))
            .collect();
        let (found, pending) = discovery.markup().sheet(css.as_bytes(), &page, None);
        assert!(found.is_empty());
        assert_eq!(pending.waiting.len(), css::MAX_WAITING_OF_SHEET);
    }
}
