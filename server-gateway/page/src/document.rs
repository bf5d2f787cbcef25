//! Discovery of references in the markup of a document.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use lol_html::send::Element;
use url::Url;

use crate::{
    Certainty, CrossOrigin, Destination, ImageChoice, Importance, Initiator, Reference, ReferrerPolicy,
    Sandbox, Viewport, Vocabulary,
    attributes::{Attribute, nonce, plugin},
    character_reference,
    charset::{self, EncodingConfidence},
    csp::Inline,
    discovery::{Nesting, discover_nested},
    image_selection::ImageSelection,
    inline_styles::{InlineStyles, MAX_STYLE},
    link::{Link, Linked, ScriptKind, script_kind, with_priority},
    media,
    reference::Base,
    references::{Added, MAX_REFERENCES, References},
};

/// Maximum depth of nested `srcdoc` frames that are searched.
const MAX_SRCDOC: usize = 3;

/// Maximum number of `srcdoc` frames of a page that are searched; real pages have a few.
const MAX_SRCDOCS: usize = 200;

/// An element whose end tag is tracked.
#[derive(Clone, Copy)]
pub(crate) enum OpenElement {
    Picture,
    Template,
}

/// State of a document as far as it was read.
pub(crate) struct Document {
    initiator: Initiator,
    base: Base,
    base_set: bool,
    /// True while the markup may declare the encoding.
    encoding_open: bool,
    viewport: Viewport,
    depth: usize,
    /// Number of the page's `srcdoc` frames so far.
    srcdocs: Arc<AtomicUsize>,
    referrer_policy: Option<ReferrerPolicy>,
    all: References,
    found: Vec<Reference>,
    images: ImageSelection,
    /// The last declared icon; a browser loads one.
    icon: Option<Reference>,
    icon_declared: bool,
    templates: usize,
    styles: InlineStyles,
}

impl Document {
    /// Creates a document. Relative URLs are resolved against `base` until the markup declares another base.
    pub(crate) fn new(initiator: Initiator, base: &Url, viewport: Viewport, nesting: Nesting) -> Self {
        let Nesting { depth, srcdocs } = nesting;
        Self {
            base: Base::new(base),
            initiator,
            base_set: false,
            encoding_open: false,
            viewport,
            depth,
            srcdocs,
            referrer_policy: None,
            all: References::new(MAX_REFERENCES),
            found: Vec::new(),
            images: ImageSelection::default(),
            icon: None,
            icon_declared: false,
            templates: 0,
            styles: InlineStyles::new(),
        }
    }

    pub(crate) fn begin(&mut self, confidence: EncodingConfidence) {
        self.base.encoding = confidence.encoding();
        self.encoding_open = confidence == EncodingConfidence::Tentative;
    }

    pub(crate) fn element(&mut self, element: &Element<'_, '_>) -> Option<OpenElement> {
        let tag = element.tag_name();
        // Names in templates count, because scripts insert the contents.
        let matched = self.styles.add_names(&tag, element);
        self.add_all(matched);
        if tag == "template" {
            self.templates += 1;
            return Some(OpenElement::Template);
        }
        if self.templates > 0 {
            return None;
        }
        let attribute = |name: &str| {
            element
                .get_attribute(name)
                .map(|value| character_reference::resolve(&value))
        };
        if let Some(style) = attribute("style").filter(|style| may_load(style))
            && self.initiator.allows_inline(Inline::Attribute)
        {
            self.add_declarations(&style, element);
        }
        match tag.as_str() {
            "picture" => {
                self.images.open_picture();
                return Some(OpenElement::Picture);
            }
            "base" => self.set_base(attribute("href").as_deref()),
            "meta" => self.meta(&attribute),
            "link" => self.link(&attribute, nonce(element)),
            "script" => self.script(&attribute, nonce(element)),
            "style" => {
                self.flush_style();
                let nonce = nonce(element);
                let applies = media::applies(&attribute("media").unwrap_or_default(), self.viewport)
                    && self.initiator.allows_inline(Inline::Element(nonce.as_deref()));
                self.styles.open(applies);
            }
            "source" => self.images.source(&attribute, self.viewport),
            "img" => self.image(&attribute),
            "iframe" | "frame" => self.frame(&attribute),
            _ => self.embedded(&tag, &attribute),
        }
        None
    }

    pub(crate) const fn vocabulary(&self) -> &Vocabulary {
        self.styles.vocabulary()
    }

    pub(crate) const fn viewport(&self) -> Viewport {
        self.viewport
    }

    pub(crate) fn close(&mut self, opened: OpenElement) {
        match opened {
            OpenElement::Picture => self.images.close_picture(),
            OpenElement::Template => self.templates = self.templates.saturating_sub(1),
        }
    }

    pub(crate) fn style_text(&mut self, text: &str, last: bool) {
        if self.templates == 0 {
            self.styles.push(text);
        }
        if last {
            self.flush_style();
        }
    }

    /// Adds text that the page displays.
    pub(crate) fn text(&mut self, text: &str) {
        self.styles.add_text(text);
    }

    /// The inline style sheets, and the fonts of the page.
    pub(crate) const fn styles(&mut self) -> &mut InlineStyles {
        &mut self.styles
    }

    /// Like [`Self::take_found`], for the fonts of inline style sheets alone.
    pub(crate) fn take_used_fonts(&mut self) -> Vec<Reference> {
        let before = std::mem::take(&mut self.found);
        let fonts = self.styles.take_used_fonts();
        self.add_all(fonts);
        std::mem::replace(&mut self.found, before)
    }

    /// Returns the references found since the last call.
    pub(crate) fn take_found(&mut self) -> Vec<Reference> {
        let fonts = self.styles.take_used_fonts();
        self.add_all(fonts);
        std::mem::take(&mut self.found)
    }

    /// Returns the images with several sizes since the last call.
    pub(crate) fn take_choices(&mut self) -> Vec<ImageChoice> {
        self.images.take_choices()
    }

    /// Returns true if the document accepts no further reference.
    pub(crate) const fn is_full(&self) -> bool {
        self.all.len() >= MAX_REFERENCES
    }

    /// Returns the references found since the last call, and those that depend on the document's end.
    pub(crate) fn finish(&mut self) -> Vec<Reference> {
        self.flush_style();
        self.styles.end();
        let unmatched = self.styles.take_unmatched();
        self.add_all(unmatched);
        if let Some(icon) = self.icon.take() {
            self.add(icon);
        }
        self.take_found()
    }

    /// Returns the reference that browsers request if a page declares no icon.
    pub(crate) fn default_icon(&self) -> Option<Reference> {
        if self.icon_declared || self.depth > 0 {
            return None;
        }
        let url = self.base.resolve("/favicon.ico")?;
        Some(Reference::new(url, Destination::Icon))
    }

    fn set_base(&mut self, href: Option<&str>) {
        if let (false, Some(href)) = (self.base_set, href) {
            self.base_set = true;
            let url = self.base.join(href.trim());
            let is_base =
                |url: &Url| !matches!(url.scheme(), "data" | "javascript") && self.initiator.allows_base(url);
            if let Some(url) = url.filter(is_base) {
                self.base.url = url;
            }
        }
    }

    fn meta(&mut self, attribute: Attribute<'_>) {
        let is = |name: &str, wanted: &str| {
            attribute(name).is_some_and(|value| value.trim().eq_ignore_ascii_case(wanted))
        };
        if is("name", "referrer") {
            let policy = attribute("content").and_then(|content| ReferrerPolicy::of_meta(&content));
            self.referrer_policy = policy.or(self.referrer_policy);
            if let Some(policy) = policy {
                self.initiator.set_referrer_policy(policy);
            }
        }
        if is("http-equiv", "content-security-policy")
            && let Some(policy) = attribute("content")
        {
            self.initiator.add_policy(&policy);
        }
        if !self.encoding_open {
            return;
        }
        let content = || attribute("content").filter(|_| is("http-equiv", "content-type"));
        let label = attribute("charset")
            .or_else(|| content().and_then(|content| charset::in_content_type(&content).map(str::to_owned)));
        if let Some(encoding) = label.and_then(|label| charset::declared(&label)) {
            self.encoding_open = false;
            self.base.encoding = encoding;
        }
    }

    fn link(&mut self, attribute: Attribute<'_>, nonce: Option<Box<str>>) {
        let link = Link::of_element(attribute, nonce);
        match link.resource(&self.base, self.viewport) {
            Linked::Nothing => {}
            Linked::Resource(reference) => self.add(reference),
            Linked::Icon(icon) => {
                self.icon_declared = true;
                self.icon = icon;
            }
        }
    }

    fn script(&mut self, attribute: Attribute<'_>, nonce: Option<Box<str>>) {
        let kind = script_kind(&attribute("type").unwrap_or_default());
        let source = attribute("src")
            .or_else(|| attribute("href"))
            .or_else(|| attribute("xlink:href"));
        if kind == ScriptKind::Data || (kind == ScriptKind::Classic && attribute("nomodule").is_some()) {
            return;
        }
        let Some(url) = source.and_then(|source| self.base.resolve(&source)) else {
            return;
        };
        let waits =
            kind == ScriptKind::Module || attribute("async").is_some() || attribute("defer").is_some();
        let mut cross_origin = CrossOrigin::of_attribute(attribute("crossorigin").as_deref());
        if kind == ScriptKind::Module && cross_origin == CrossOrigin::None {
            cross_origin = CrossOrigin::Anonymous;
        }
        let mut script = Reference::new(url, Destination::Script).with_cross_origin(cross_origin);
        if waits {
            script = script.with_importance(Importance::High);
        }
        script.nonce = nonce;
        script.integrity = attribute("integrity").map(String::into_boxed_str);
        self.add_from(script, attribute);
    }

    fn image(&mut self, attribute: Attribute<'_>) {
        if let Some(image) = self.images.select(attribute, &self.base, self.viewport) {
            self.add_shown(image, attribute);
        }
    }

    fn frame(&mut self, attribute: Attribute<'_>) {
        let sandbox =
            attribute("sandbox").map(|allowed| Sandbox::of_tokens(allowed.split_ascii_whitespace()));
        let sandbox = sandbox.unwrap_or_default();
        match attribute("srcdoc") {
            Some(srcdoc) if self.depth < MAX_SRCDOC => {
                let Some(document) = self.initiator.srcdoc(sandbox) else {
                    return;
                };
                if self.srcdocs.fetch_add(1, Relaxed) >= MAX_SRCDOCS {
                    return;
                }
                let nesting = Nesting {
                    depth: self.depth + 1,
                    srcdocs: Arc::clone(&self.srcdocs),
                };
                let found = discover_nested(&srcdoc, document, &self.base.url, self.viewport, nesting);
                self.add_all(found);
            }
            Some(_) => {}
            None => {
                let url = attribute("src").and_then(|source| self.base.resolve(&source));
                if let Some(url) = url {
                    let frame = Reference {
                        sandbox,
                        ..Reference::new(url, Destination::Frame)
                    };
                    self.add_shown(frame, attribute);
                }
            }
        }
    }

    fn embedded(&mut self, tag: &str, attribute: Attribute<'_>) {
        let link = || attribute("href").or_else(|| attribute("xlink:href"));
        let is_button = || attribute("type").is_some_and(|kind| kind.trim().eq_ignore_ascii_case("image"));
        let (target, destination) = match tag {
            "image" => (link().or_else(|| attribute("src")), Destination::Image),
            "use" | "feimage" => (link(), Destination::Image),
            "input" if is_button() => (attribute("src"), Destination::Image),
            "video" => (attribute("poster"), Destination::Image),
            "body" | "table" | "tr" | "td" | "th" | "thead" | "tbody" | "tfoot" => {
                (attribute("background"), Destination::Image)
            }
            "embed" => (plugin(attribute, "src"), Destination::Other),
            "object" => (plugin(attribute, "data"), Destination::Other),
            _ => return,
        };
        let url = target.and_then(|target| self.base.resolve(&target));
        let is_allowed = |url: &Url| destination != Destination::Other || self.initiator.allows_plugin(url);
        if let Some(url) = url.filter(is_allowed) {
            let cross_origin = CrossOrigin::of_attribute(attribute("crossorigin").as_deref());
            self.add_from(
                Reference::new(url, destination).with_cross_origin(cross_origin),
                attribute,
            );
        }
    }

    /// Adds an image or frame, which may be lazy.
    fn add_shown(&mut self, reference: Reference, attribute: Attribute<'_>) {
        let lazy = attribute("loading").is_some_and(|loading| loading.trim().eq_ignore_ascii_case("lazy"));
        let cross_origin = if reference.destination == Destination::Image {
            CrossOrigin::of_attribute(attribute("crossorigin").as_deref())
        } else {
            CrossOrigin::None
        };
        let reference = reference.with_cross_origin(cross_origin);
        if lazy {
            // Without layout, its distance from the viewport is unknown.
            let lazy = reference
                .with_importance(Importance::Lazy)
                .with_certainty(Certainty::Likely);
            self.add_from(lazy, attribute);
        } else {
            self.add_from(reference, attribute);
        }
    }

    /// Adds the reference of an element that may have a priority and a referrer policy.
    fn add_from(&mut self, mut reference: Reference, attribute: Attribute<'_>) {
        reference.referrer_policy = attribute("referrerpolicy")
            .as_deref()
            .and_then(ReferrerPolicy::named);
        self.add(with_priority(reference, attribute("fetchpriority").as_deref()));
    }

    fn add_declarations(&mut self, css: &str, element: &Element<'_, '_>) {
        let found = self.styles.declarations(css, element, &self.base, self.viewport);
        self.add_all(found);
    }

    fn flush_style(&mut self) {
        let found = self.styles.flush(&self.base, self.viewport);
        self.add_all(found);
    }

    fn add_all(&mut self, references: impl IntoIterator<Item = Reference>) {
        for reference in references {
            self.add(reference);
        }
    }

    fn add(&mut self, mut reference: Reference) {
        reference.referrer_policy = reference.referrer_policy.or(self.referrer_policy);
        match self.all.add(&reference) {
            Added::New(index) | Added::Stronger(index) => self.found.extend(self.all.get(index).cloned()),
            Added::Known(_) | Added::Full => {}
        }
    }
}

/// Returns true if the declarations of a `style` attribute may load an object or use a font.
fn may_load(style: &str) -> bool {
    style.len() <= MAX_STYLE && (style.contains(['(', '-']) || style.contains("font"))
}
