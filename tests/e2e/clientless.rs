//! Browsers without an agent, in network namespaces: a visitor's computer, the router with the gateway, and the web.
//!
//! Network namespaces need root; without it these tests print that they are skipped. `quotas` and `removal` need none.
mod dns;
mod network;
mod prefixes;
pub(crate) mod quotas;
mod removal;
mod transparent;
