//! Participation of a request in a page load.
use std::sync::Arc;

use crate::pageload::{PageLoad, PageLoadGuard};

/// A request's reference to a page load.
#[derive(Debug)]
pub(super) struct PageUse {
    pub(super) load: Arc<PageLoad>,
    pub(super) role: Role,
    _guard: PageLoadGuard,
}

/// Role of a request in a page load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The page's document.
    Page,
    /// An object of the page.
    Object,
}

impl PageUse {
    pub(super) fn of(load: Arc<PageLoad>, role: Role) -> Self {
        let live = load.join();
        Self {
            load,
            role,
            _guard: live,
        }
    }
}
