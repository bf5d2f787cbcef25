//! Payloads of the messages whose form on the wire differs from the message: numbers that stand for nothing,
//! byte arrays for hashes, and members that are usually absent. Each payload is converted from and to its
//! message here and nowhere else. The payloads of all other messages are the messages themselves.
mod fetch;
mod forget;
mod head;
mod hello;
mod optional_fetch_id;

pub(crate) use self::{
    fetch::FetchPayload,
    forget::ForgetPayload,
    head::HeadPayload,
    hello::{HelloPayload, WelcomePayload},
    optional_fetch_id::OptionalFetchId,
};
