//! Requests of devices for unit tests.
use http::request::Parts;
use longhaul_http::request_context::CredentialsSecret;
use longhaul_types::{ClientId, PublicKey};

use crate::requester_identity::RequesterIdentity;

/// The head of a GET request with these fields.
pub(crate) fn request_parts(url: &str, fields: &[(&'static str, &str)]) -> Parts {
    let mut request = http::Request::builder().uri(url);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// The identity of the owner of device number `device` as requester of `parts`.
pub(crate) fn identity_of(device: u8, parts: &Parts) -> RequesterIdentity {
    RequesterIdentity::of(
        (PublicKey::from_bytes([device; 32]), ClientId::OWNER),
        &CredentialsSecret::derived_from(&[7]),
        &parts.method,
        &parts.uri.to_string(),
        &parts.headers,
    )
}
