//! Rules of the connection pool: who may use a connection, and how many are kept.
use std::time::Duration;

use crate::owner::{Ownership, RequestProperties};

/// Rule for the use of pooled connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The ownership of each connection decides.
    ByOwnership,
    /// All requests belong to one browser connection and share its login.
    OneUser,
}

/// Parameters of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolRules {
    pub(crate) sharing: Sharing,
    /// Idle HTTP/1.1 connections of one owner to one host.
    pub(crate) idle_per_host: usize,
    pub(crate) idle: Duration,
    /// Requests of one device that share an HTTP/2 connection.
    pub(crate) streams: usize,
}

impl PoolRules {
    /// Returns the suitability of a connection of this ownership for a request, higher is better; `None` if the
    /// connection must not carry the request.
    pub(crate) fn preference(&self, ownership: Ownership, properties: &RequestProperties) -> Option<u8> {
        match self.sharing {
            Sharing::ByOwnership => ownership.preference(properties),
            Sharing::OneUser => Some(0),
        }
    }
}
