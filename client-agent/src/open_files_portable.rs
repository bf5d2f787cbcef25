//! The limit of open files on systems other than Unix, which have none for connections.

/// Does nothing.
pub(crate) const fn raise_limit() {}
