//! One session of a device: its state (`context`), the streams that its agent opens (`incoming`),
//! cancellation of its requests, and the origin connections of its connection-bound logins.
pub(crate) mod associations;
pub(crate) mod cancellation;
pub(crate) mod context;
pub(crate) mod incoming;
