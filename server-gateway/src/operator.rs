//! The operator's interface to the device list: changes, the admin socket by which a running gateway applies
//! them, and its client in the operator's commands.
//!
//! * `changes` are the changes that an operator makes, `messages` their form in JSON, `report` the list.
//! * `orders` are orders that only a running gateway carries out, `status` is its state.
//! * `port` serves the same requests on a loopback address, and `access` says who may send them there.
//! * `service` answers requests on the socket that `socket` opens and guards; `client` sends them.
pub(crate) mod access;
pub(crate) mod changes;
#[cfg_attr(not(unix), path = "client_elsewhere.rs")]
pub(crate) mod client;
pub(crate) mod messages;
pub(crate) mod orders;
pub(crate) mod port;
pub(crate) mod report;
pub(crate) mod service;
#[cfg_attr(not(unix), path = "socket_elsewhere.rs")]
pub(crate) mod socket;
pub(crate) mod status;
