//! Reference pages: generated from the papers' data about the pages that they measured.
//!
//! Number and total size of the objects, the largest one, the hosts and the proportions of text and images
//! are as published ([`Published`]). Text is markup, style sheets, scripts and prose from a vocabulary, which
//! compress about as real ones do; images are synthesised photographs and drawings in JPEG, GIF and PNG.
//! Everything is derived from a fixed seed: the bytes are always the same.
//!
//! Both papers measured a page of CNN: `cnn` is the one of WWAN-STUDY, `pep-cnn` the one of PEP-WWAN.
//! `static` is the single-host test page of GPRS-WWW.
mod catalogue;
mod edition;
mod files;
mod gallery;
mod numbers;
mod picture;
mod random;
mod site;
mod sizes;
mod text;

use std::sync::{Arc, LazyLock};

use crate::Page;
pub use catalogue::Published;
use catalogue::RECIPES;
pub(crate) use edition::Edition;

/// First editions, shared so that a process creates a page's content only once.
static FIRST: LazyLock<Vec<Arc<Edition>>> = LazyLock::new(|| {
    RECIPES
        .iter()
        .map(|recipe| Arc::new(Edition::first(recipe)))
        .collect()
});

/// Returns all reference pages in their first edition: those of PEP-WWAN, those of WWAN-STUDY, and the static
/// one.
pub fn all() -> Vec<Page> {
    FIRST.iter().map(Edition::page).collect()
}

/// Returns the reference page with this name.
pub fn named(name: &str) -> Option<Page> {
    let edition = FIRST.iter().find(|edition| edition.name() == name)?;
    Some(Edition::page(edition))
}

/// Names of all reference pages, in the order of [`all`].
pub fn names() -> impl Iterator<Item = &'static str> {
    RECIPES.iter().map(|recipe| recipe.name)
}
