//! A request's part in a page load.
use std::sync::Arc;

use crate::bundle::{Live, PageLoad};

/// A request's use of a page load.
#[derive(Debug)]
pub(super) struct PageUse {
    pub(super) load: Arc<PageLoad>,
    pub(super) role: Role,
    _live: Live,
}

/// What a request is to a page load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The page itself.
    Page,
    /// Something that the page needs.
    Object,
}

impl PageUse {
    pub(super) fn of(load: Arc<PageLoad>, role: Role) -> Self {
        let live = load.enter();
        Self {
            load,
            role,
            _live: live,
        }
    }
}
