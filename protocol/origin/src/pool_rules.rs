//! Rules of the connection pool: who may use a connection, and how many are kept.
use std::time::Duration;

use crate::{
    connection_use::ConnectionUse,
    owner::{Ownership, RequestProperties},
};

/// Time in which no origin closes a connection after a response: the shortest limits in use are 2 s to 5 s. It counts
/// from the head of the response, since the origin may have sent the body long before it was read.
const RECENT: Duration = Duration::from_secs(1);

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

    /// Returns the time for which an HTTP/1.1 connection may be idle, if the origin keeps it for `usable_for`. The login
    /// of one user ends with its connection, so that the last moment is better than none.
    pub(crate) fn idle_limit(&self, usable_for: Option<Duration>) -> Duration {
        match (self.sharing, usable_for) {
            (Sharing::ByOwnership, Some(usable_for)) => usable_for.min(self.idle),
            (Sharing::OneUser, _) | (_, None) => self.idle,
        }
    }

    /// True if an HTTP/1.1 connection on which the origin answered `age` ago may carry a request. The origin may be
    /// closing the connection; a request that may not be repeated would be lost.
    pub(crate) fn may_carry(&self, properties: &RequestProperties, age: Duration) -> bool {
        properties.is_repeatable || age < RECENT || self.sharing == Sharing::OneUser
    }

    /// True if an HTTP/1.1 connection permits the use that a request requires.
    pub(crate) fn permits(&self, properties: &RequestProperties, is_used: bool) -> bool {
        match properties.connection_use {
            ConnectionUse::First => !is_used,
            ConnectionUse::Any => true,
        }
    }
}
