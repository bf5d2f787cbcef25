//! Texts of pages.
use std::collections::BTreeSet;

use bytes::Bytes;
use http::Method;
use longhaul_pages::Page;
use url::Url;

use crate::{job::PageChoice, select};

/// Kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Html,
    Css,
    Script,
    /// JSON, XML, SVG, plain text.
    Data,
}

impl Kind {
    fn of(media_type: &str) -> Self {
        match media_type {
            "text/html" | "application/xhtml+xml" => Self::Html,
            "text/css" => Self::Css,
            other if other.ends_with("javascript") || other.ends_with("ecmascript") => Self::Script,
            _ => Self::Data,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Css => "css",
            Self::Script => "script",
            Self::Data => "data",
        }
    }
}

/// Size class of a text. One of less than 32 KiB is a single window of the body framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SizeClass {
    Tiny,
    Window,
    Windows,
    Large,
}

impl SizeClass {
    pub(super) const ALL: [Self; 4] = [Self::Tiny, Self::Window, Self::Windows, Self::Large];

    pub(super) fn of(bytes: usize) -> Self {
        match bytes {
            0..0x1000 => Self::Tiny,
            0x1000..0x8000 => Self::Window,
            0x8000..0x4_0000 => Self::Windows,
            _ => Self::Large,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tiny => "< 4 KiB",
            Self::Window => "< 32 KiB",
            Self::Windows => "< 256 KiB",
            Self::Large => ">= 256 KiB",
        }
    }
}

/// A text of a page.
pub(super) struct Text {
    pub(super) page: String,
    pub(super) edition: usize,
    pub(super) url: String,
    pub(super) kind: Kind,
    pub(super) content_type: String,
    pub(super) body: Bytes,
    /// Response of the same URL in the previous edition.
    pub(super) base: Option<Bytes>,
}

impl Text {
    pub(super) fn size_class(&self) -> SizeClass {
        SizeClass::of(self.body.len())
    }
}

/// The texts to measure.
#[derive(Default)]
pub(super) struct Texts {
    /// The texts of each page's first edition, each body once.
    pub(super) alone: Vec<Text>,
    /// Texts of later recorded editions that differ from the previous response of the same URL.
    pub(super) based: Vec<Text>,
    /// Number of unchanged texts of later editions.
    pub(super) unchanged: usize,
}

pub(super) fn gather(pages: &[String]) -> Result<Texts, select::SelectError> {
    let mut texts = Texts::default();
    let mut seen = BTreeSet::new();
    for choice in select::pages(pages)? {
        let mut page = select::find(&choice)?;
        for url in page.objects() {
            if let Some(text) = text(&page, &url)
                && seen.insert(text.body.clone())
            {
                texts.alone.push(text);
            }
        }
        // The differences of generated editions depend on the generator, and are not representative for
        // bases.
        while let PageChoice::Recorded { .. } = choice
            && let Some(next) = page.next_edition()
        {
            texts.compare(&page, &next);
            page = next;
        }
    }
    Ok(texts)
}

impl Texts {
    fn compare(&mut self, old: &Page, new: &Page) {
        for url in new.objects() {
            let (Some(before), Some(now)) = (text(old, &url), text(new, &url)) else {
                continue;
            };
            if before.body == now.body {
                self.unchanged += 1;
            } else {
                self.based.push(Text {
                    base: Some(before.body),
                    ..now
                });
            }
        }
    }
}

/// Returns the response to a URL of a page, if it is text.
fn text(page: &Page, url: &Url) -> Option<Text> {
    let answer = page
        .answer(&Method::GET, url)
        .filter(longhaul_pages::Answer::is_text)?;
    let body = answer.decoded().ok().filter(|body| !body.is_empty())?;
    let content_type = answer.media_type();
    Some(Text {
        page: page.name().to_owned(),
        edition: page.edition(),
        url: url.to_string(),
        kind: Kind::of(&content_type),
        content_type,
        body,
        base: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_classified_by_type_and_size() {
        for (media_type, kind) in [
            ("text/html", "html"),
            ("text/css", "css"),
            ("application/x-javascript", "script"),
            ("image/svg+xml", "data"),
            ("application/json", "data"),
        ] {
            assert_eq!(Kind::of(media_type).name(), kind);
        }
        let classes = [1, 4095, 4096, 32_767, 32_768, 262_143, 262_144].map(SizeClass::of);
        let expected = [0, 0, 1, 1, 2, 2, 3].map(|index: usize| SizeClass::ALL[index]);
        assert_eq!(classes, expected);
    }
}
