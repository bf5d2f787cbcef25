//! Key of requests that may share a coalesced fetch.
use http::{HeaderName, header, request::Parts};
use longhaul_http::policy::is_canonical;

use super::requester_identity::RequesterIdentity;

/// Key of requests that may share a coalesced fetch: everything in the request that the origin sees, except
/// the gateway's own fields. Requests with credentials are shared only within one device, client and
/// partition.
pub(super) fn coalescing_key(identity: &RequesterIdentity, parts: &Parts) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    let mut field = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    field(parts.method.as_str().as_bytes());
    field(parts.uri.to_string().as_bytes());
    if [header::COOKIE, header::AUTHORIZATION]
        .iter()
        .any(|name| parts.headers.contains_key(name))
    {
        field(identity.device().as_bytes());
        field(&identity.context().client().0.to_be_bytes());
        let partition = identity.context().partition();
        field(partition.map(ToString::to_string).unwrap_or_default().as_bytes());
    }
    let mut headers: Vec<(&str, &[u8])> = parts
        .headers
        .iter()
        .filter(|(name, value)| !UNKEYED_IF_CANONICAL.contains(name) || !is_canonical(name, value))
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    // The sort is stable: fields of one name keep their order.
    headers.sort_by_key(|(name, _)| *name);
    for (name, value) in headers {
        field(name.as_bytes());
        field(value);
    }
    *hash.finalize().as_bytes()
}

/// Fields that are not part of the key while their values are canonical.
const UNKEYED_IF_CANONICAL: [HeaderName; 2] = [header::VIA, longhaul_http::method::EARLY_DATA];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_requests::{identity_of, request_parts};

    fn key(device: u8, parts: &Parts) -> [u8; 32] {
        coalescing_key(&identity_of(device, parts), parts)
    }

    #[test]
    fn equal_requests_share_a_key() {
        let url = "http://a.test/x";
        let plain = request_parts(url, &[("accept", "a"), ("user-agent", "u")]);
        let again = request_parts(
            url,
            &[
                ("user-agent", "u"),
                ("via", "1.1 longhaul"),
                ("accept", "a"),
                ("early-data", "1"),
            ],
        );
        assert_eq!(key(1, &plain), key(2, &again));
        for other in [
            request_parts("http://a.test/y", &[("accept", "a"), ("user-agent", "u")]),
            request_parts(url, &[("accept", "b"), ("user-agent", "u")]),
            request_parts(url, &[("accept", "a")]),
            request_parts(url, &[("accept", "au"), ("user-agent", "")]),
        ] {
            assert_ne!(key(1, &plain), key(1, &other), "{other:?}");
        }
    }

    #[test]
    fn keys_of_requests_with_credentials_differ_by_device() {
        for name in ["cookie", "authorization"] {
            let personal = request_parts("http://a.test/x", &[(name, "secret")]);
            assert_eq!(key(1, &personal), key(1, &personal));
            assert_ne!(key(1, &personal), key(2, &personal), "{name}");
        }
    }

    #[test]
    fn only_what_the_gateways_write_themselves_is_not_part_of_the_key() {
        let url = "http://a.test/x";
        let plain = request_parts(url, &[]);
        for field in [
            ("via", "1.1 other"),
            ("early-data", "2"),
            ("cache-control", "max-age=0"),
            ("accept-encoding", "gzip, deflate, br, zstd"),
            ("x-unknown", "1"),
        ] {
            let other = request_parts(url, &[field]);
            assert_ne!(key(1, &plain), key(1, &other), "{field:?}");
        }
    }
}
