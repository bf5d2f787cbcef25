//! Associations: UDP datagrams of a program (docs/protocol/session.md section 14).
use bincode::{Decode, Encode};

use crate::id::FetchId;

/// Opens an association, which lasts as long as the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AssociationOpen {
    /// Number, from the same sequence as the fetches.
    pub id: FetchId,
}

/// The gateway relays the datagrams of the association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AssociationAccept {
    /// Number of the association.
    pub id: FetchId,
}
