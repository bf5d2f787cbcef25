//! Links as they occur in markup and in the `Link` field of responses.
use crate::{
    Certainty, CrossOrigin, Destination, Importance, Reference, ReferrerPolicy, Viewport,
    attributes::Attribute, media, reference::Base, srcset,
};

/// Returns true for image types that browsers display; browsers skip a source or preload of another type.
pub(crate) fn is_displayed(kind: &str) -> bool {
    let kind = kind.trim().to_ascii_lowercase();
    matches!(
        kind.as_str(),
        "" | "image/avif"
            | "image/webp"
            | "image/apng"
            | "image/png"
            | "image/jpeg"
            | "image/jpg"
            | "image/pjpeg"
            | "image/gif"
            | "image/svg+xml"
            | "image/bmp"
            | "image/x-icon"
            | "image/vnd.microsoft.icon"
    )
}

/// Returns the kind of a script by its `type` (HTML Living Standard 4.12.1.1).
pub(crate) fn script_kind(kind: &str) -> ScriptKind {
    let kind = kind.trim().to_ascii_lowercase();
    match kind.as_str() {
        "" => ScriptKind::Classic,
        "module" => ScriptKind::Module,
        _ if kind.ends_with("/javascript") || kind.ends_with("/ecmascript") => ScriptKind::Classic,
        "application/x-javascript"
        | "text/x-javascript"
        | "application/x-ecmascript"
        | "text/x-ecmascript"
        | "text/jscript"
        | "text/livescript" => ScriptKind::Classic,
        _ if kind.strip_prefix("text/javascript1.").is_some() => ScriptKind::Classic,
        _ => ScriptKind::Data,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptKind {
    Classic,
    Module,
    /// Not executed.
    Data,
}

/// Applies `fetchpriority` to a reference.
pub(crate) fn with_priority(reference: Reference, priority: Option<&str>) -> Reference {
    let importance = match (priority.map(str::trim), reference.importance) {
        (Some(high), Importance::Normal | Importance::High) if high.eq_ignore_ascii_case("high") => {
            Importance::High
        }
        (Some(low), Importance::High) if low.eq_ignore_ascii_case("low") => Importance::Normal,
        (Some(low), Importance::Normal) if low.eq_ignore_ascii_case("low") => Importance::Lazy,
        (_, importance) => importance,
    };
    reference.with_importance(importance)
}

/// Attributes of a link that decide about its load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    pub(crate) rel: String,
    pub(crate) href: Option<String>,
    /// `as`
    pub(crate) destination: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) media: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) cross_origin: Option<String>,
    pub(crate) referrer_policy: Option<String>,
    pub(crate) priority: Option<String>,
    pub(crate) nonce: Option<Box<str>>,
    pub(crate) integrity: Option<Box<str>>,
    pub(crate) image_srcset: Option<String>,
    pub(crate) image_sizes: Option<String>,
    pub(crate) disabled: bool,
    /// True if the link has a handler that changes the link's media once it is loaded, as in `media=print
    /// onload="this.media='all'"`.
    pub(crate) switches: bool,
}

/// Result of evaluating a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    Nothing,
    Resource(Reference),
    /// An icon: a browser loads one of several. `None` if the icon needs no request.
    Icon(Option<Reference>),
}

impl Link {
    /// Reads the attributes of a `link` element.
    pub(crate) fn of_element(attribute: Attribute<'_>, nonce: Option<Box<str>>) -> Self {
        let onload = attribute("onload").unwrap_or_default();
        Self {
            rel: attribute("rel").unwrap_or_default(),
            href: attribute("href"),
            destination: attribute("as"),
            kind: attribute("type"),
            media: attribute("media"),
            title: attribute("title"),
            cross_origin: attribute("crossorigin"),
            referrer_policy: attribute("referrerpolicy"),
            priority: attribute("fetchpriority"),
            nonce,
            integrity: attribute("integrity").map(String::into_boxed_str),
            image_srcset: attribute("imagesrcset"),
            image_sizes: attribute("imagesizes"),
            disabled: attribute("disabled").is_some(),
            switches: onload.contains("media"),
        }
    }

    /// Returns what a browser loads for this link in a document at `base`.
    pub(crate) fn resource(&self, base: &Base, viewport: Viewport) -> Linked {
        let rel = self.rel.to_ascii_lowercase();
        let has = |wanted: &str| rel.split_ascii_whitespace().any(|token| token == wanted);
        let applies = media::applies(self.media.as_deref().unwrap_or_default(), viewport);
        let found = if has("stylesheet") {
            self.style(base, applies, has("alternate"))
        } else if has("icon") {
            return self.icon(base, applies);
        } else if has("modulepreload") {
            self.module(base)
        } else if has("preload") && applies {
            self.preload(base, viewport)
        } else if has("manifest") {
            self.manifest(base)
        } else {
            None
        };
        let Some(mut reference) = found else {
            return Linked::Nothing;
        };
        reference.referrer_policy = self.referrer_policy.as_deref().and_then(ReferrerPolicy::named);
        reference.nonce.clone_from(&self.nonce);
        reference.integrity.clone_from(&self.integrity);
        Linked::Resource(with_priority(reference, self.priority.as_deref()))
    }

    fn reference(&self, base: &Base, destination: Destination) -> Option<Reference> {
        let url = base.resolve(self.href.as_deref()?)?;
        let reference = Reference::new(url, destination);
        let cross_origin = CrossOrigin::of_attribute(self.cross_origin.as_deref());
        Some(reference.with_cross_origin(cross_origin))
    }

    fn style(&self, base: &Base, applies: bool, alternate: bool) -> Option<Reference> {
        let kind = self.kind.as_deref().unwrap_or_default().trim();
        let css = kind.is_empty() || kind.to_ascii_lowercase().starts_with("text/css");
        let named = self.title.as_deref().is_some_and(|title| !title.is_empty());
        if !css || self.disabled || (alternate && !named) {
            return None;
        }
        if self.switches && !applies {
            let style = self.reference(base, Destination::Style)?;
            return Some(style.with_importance(Importance::High));
        }
        let destination = if applies && !alternate {
            Destination::Style
        } else {
            Destination::InactiveStyle
        };
        self.reference(base, destination)
    }

    fn icon(&self, base: &Base, applies: bool) -> Linked {
        if !applies || self.href.is_none() {
            return Linked::Nothing;
        }
        Linked::Icon(self.reference(base, Destination::Icon))
    }

    fn module(&self, base: &Base) -> Option<Reference> {
        let destination = match self.destination.as_deref() {
            None | Some("" | "script") => Destination::Script,
            Some("style") => Destination::Style,
            Some(_) => Destination::Other,
        };
        let reference = self
            .reference(base, destination)?
            .with_importance(Importance::High);
        let cross_origin = if reference.cross_origin == CrossOrigin::None {
            CrossOrigin::Anonymous
        } else {
            reference.cross_origin
        };
        Some(reference.with_cross_origin(cross_origin))
    }

    fn preload(&self, base: &Base, viewport: Viewport) -> Option<Reference> {
        let kind = self.kind.as_deref().unwrap_or_default();
        let destination = self.destination.as_deref()?.trim().to_ascii_lowercase();
        let reference = match destination.as_str() {
            "image" if is_displayed(kind) => {
                let candidates = srcset::candidates(self.image_srcset.as_deref(), self.href.as_deref());
                let sizes = self.image_sizes.as_deref().unwrap_or_default();
                let chosen = &candidates
                    .get(srcset::select(&candidates, sizes, viewport)?)?
                    .target;
                let reference = Reference::new(base.resolve(chosen)?, Destination::Image);
                reference.with_cross_origin(CrossOrigin::of_attribute(self.cross_origin.as_deref()))
            }
            "style" if matches!(kind.trim(), "" | "text/css") => self.reference(base, Destination::Style)?,
            "script" if script_kind(kind) != ScriptKind::Data => self.reference(base, Destination::Script)?,
            "font" if is_font(kind) => self.reference(base, Destination::Font)?,
            "fetch" | "json" => self.reference(base, Destination::Other)?,
            _ => return None,
        };
        let reference = reference.with_certainty(Certainty::Sure);
        Some(if reference.destination == Destination::Image {
            reference
        } else {
            reference.with_importance(Importance::High)
        })
    }

    /// Returns the manifest; browsers read the manifest only of pages in a secure context.
    fn manifest(&self, base: &Base) -> Option<Reference> {
        let reference = self.reference(base, Destination::Manifest)?;
        let cross_origin = match reference.cross_origin {
            CrossOrigin::Credentials => CrossOrigin::Credentials,
            CrossOrigin::None | CrossOrigin::Anonymous | CrossOrigin::Omitted => CrossOrigin::Omitted,
        };
        (reference.url.scheme() == "https").then_some(reference.with_cross_origin(cross_origin))
    }
}

fn is_font(kind: &str) -> bool {
    let kind = kind.trim().to_ascii_lowercase();
    matches!(
        kind.as_str(),
        "" | "font/woff2"
            | "font/woff"
            | "font/ttf"
            | "font/otf"
            | "font/sfnt"
            | "application/font-woff"
            | "application/font-woff2"
            | "application/x-font-woff"
            | "application/x-font-ttf"
            | "application/font-sfnt"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_types_are_distinguished_from_data_blocks() {
        for (kind, expected) in [
            ("", ScriptKind::Classic),
            (" Text/JavaScript ", ScriptKind::Classic),
            ("application/x-javascript", ScriptKind::Classic),
            ("text/javascript1.5", ScriptKind::Classic),
            ("MODULE", ScriptKind::Module),
            ("importmap", ScriptKind::Data),
            ("application/ld+json", ScriptKind::Data),
            ("text/template", ScriptKind::Data),
            ("text/javascript; charset=utf-8", ScriptKind::Data),
        ] {
            assert_eq!(script_kind(kind), expected, "{kind}");
        }
    }

    #[test]
    fn priorities_move_by_one_step() {
        let url = url::Url::parse("http://a.test/").unwrap();
        let moved = |importance, priority| {
            let image = Reference::new(url.clone(), Destination::Image).with_importance(importance);
            with_priority(image, Some(priority)).importance
        };
        assert_eq!(moved(Importance::Normal, "HIGH"), Importance::High);
        assert_eq!(moved(Importance::High, "low"), Importance::Normal);
        assert_eq!(moved(Importance::Normal, "low"), Importance::Lazy);
        assert_eq!(moved(Importance::Lazy, "high"), Importance::Lazy);
        assert_eq!(moved(Importance::Blocking, "low"), Importance::Blocking);
        assert_eq!(moved(Importance::Normal, "auto"), Importance::Normal);
    }
}
