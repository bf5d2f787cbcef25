//! The `Head` message, and the priority class of the body that follows.
use http::{HeaderMap, StatusCode};
use longhaul_gateway_core::failure::Failure;
use longhaul_session::{
    BodyPlace, FailureReason, Fetch, Head, HeaderField, HeaderSetError, Message, encode, encode_header_set,
};
use longhaul_types::ContentHash;

use crate::session::context::SessionContext;

/// Encodes the `Head` against the newest one that the agent has, and stores it as a later base.
pub(super) fn encode_head(
    context: &SessionContext,
    fetch: &Fetch,
    status: StatusCode,
    headers: &HeaderMap,
    body: BodyPlace,
    content_hash: Option<ContentHash>,
) -> Result<Vec<u8>, Failure> {
    let fields: Vec<HeaderField> = headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect();
    let mut sets = context.response_sets();
    let headers = encode_header_set(&fields, fetch.id, fetch.seen, &sets).map_err(|error| {
        let reason = match error {
            HeaderSetError::TooLarge => FailureReason::HeaderTooLarge,
            HeaderSetError::UnknownBase | HeaderSetError::BadIndex | _ => FailureReason::Internal,
        };
        Failure::new(reason, error)
    })?;
    let message = Message::Head(Head {
        fetch: fetch.id,
        status: status.as_u16(),
        headers,
        body,
        content_hash,
    });
    let mut wire = Vec::new();
    encode(&message, &mut wire).map_err(|error| Failure::new(FailureReason::HeaderTooLarge, error))?;
    sets.insert(fetch.id, fields);
    Ok(wire)
}
