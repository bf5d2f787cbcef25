//! The operator's interface to the device list: changes, the admin socket by which a running gateway applies
//! them, and its client in the operator's commands.
//!
//! * `changes` are the changes that an operator makes, `messages` their form in JSON, `report` the list.
//! * `service` answers requests on the socket that `socket` opens and guards; `client` sends them.
pub(crate) mod changes;
#[cfg_attr(not(unix), path = "client_elsewhere.rs")]
pub(crate) mod client;
pub(crate) mod messages;
pub(crate) mod report;
pub(crate) mod service;
#[cfg_attr(not(unix), path = "socket_elsewhere.rs")]
pub(crate) mod socket;
