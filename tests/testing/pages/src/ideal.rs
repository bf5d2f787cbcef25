//! Sizes of the ideal one-shot download of a page.
use std::collections::BTreeSet;

use http::Method;
use url::Url;

use crate::{Page, answer::gzip};

/// Sizes of a set of objects, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdealSizes {
    /// All bodies in identity coding: S of the `raw` ideal.
    pub raw: u64,
    /// Text bodies in identity coding.
    pub text_raw: u64,
    /// Text bodies, each compressed by `gzip -9`.
    pub text_gzip: u64,
    /// Images (SVG is text) in identity coding.
    pub images_stored: u64,
    /// Other bodies, such as fonts, in identity coding.
    pub other_stored: u64,
    /// Number of counted objects.
    pub objects: u64,
    /// URLs to which the page has no response, or whose recorded body cannot be decoded.
    pub unknown: u64,
}

impl IdealSizes {
    /// S of the `gzip` ideal: text by `gzip -9`, all other bodies as stored.
    pub fn gzip(&self) -> u64 {
        self.text_gzip + self.images_stored + self.other_stored
    }

    /// S of the `lossy` ideal: text by `gzip -9`, images with the given number of delivered bytes.
    pub fn lossy(&self, image_bytes_delivered: u64) -> u64 {
        self.text_gzip + image_bytes_delivered + self.other_stored
    }

    fn add(&mut self, object: ObjectSize) {
        self.raw += object.stored;
        self.objects += 1;
        match object.kind {
            SizeKind::Text { gzip } => {
                self.text_raw += object.stored;
                self.text_gzip += gzip;
            }
            SizeKind::Image => self.images_stored += object.stored,
            SizeKind::Other => self.other_stored += object.stored,
        }
    }
}

/// Size of one object in the ideal download.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectSize {
    stored: u64,
    kind: SizeKind,
}

#[derive(Clone, Copy, Debug)]
enum SizeKind {
    Text { gzip: u64 },
    Image,
    Other,
}

/// Returns the sizes of the ideal download of these objects of `page`; a repeated URL counts once.
///
/// The result for each object is cached in the page, because `gzip -9` of large pages takes a while.
pub fn ideal_sizes<'a>(page: &Page, delivered: impl IntoIterator<Item = &'a Url>) -> IdealSizes {
    let mut sizes = IdealSizes::default();
    let distinct: BTreeSet<&Url> = delivered.into_iter().collect();
    for url in distinct {
        match page.remembered_size(url, || object_size(page, url)) {
            Some(object) => sizes.add(object),
            None => sizes.unknown += 1,
        }
    }
    sizes
}

fn object_size(page: &Page, url: &Url) -> Option<ObjectSize> {
    let answer = page.answer(&Method::GET, url)?;
    let body = answer.decoded().ok()?;
    let kind = if answer.is_text() {
        SizeKind::Text {
            gzip: length(&gzip(&body)),
        }
    } else if answer.media_type().starts_with("image/") {
        SizeKind::Image
    } else {
        SizeKind::Other
    };
    Some(ObjectSize {
        stored: length(&body),
        kind,
    })
}

fn length(body: &[u8]) -> u64 {
    u64::try_from(body.len()).unwrap_or(u64::MAX)
}
