//! A fetch that may be absent.
use bincode::{Decode, Encode};

use crate::id::FetchId;

/// Number of a fetch; 0 stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct OptionalFetchId(u64);

impl OptionalFetchId {
    /// The fetch, if there is one.
    pub(crate) fn get(self) -> Option<FetchId> {
        (self.0 != 0).then_some(FetchId::new(self.0))
    }
}

impl From<Option<FetchId>> for OptionalFetchId {
    fn from(fetch: Option<FetchId>) -> Self {
        Self(fetch.map_or(0, FetchId::number))
    }
}
