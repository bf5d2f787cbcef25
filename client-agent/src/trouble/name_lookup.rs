//! Conclusions from a failed name lookup.
use super::Trouble;

/// Texts of `getaddrinfo` for names that do not exist or have no address (EAI_NONAME, EAI_NODATA), of glibc,
/// musl and macOS. The standard library passes only the text on.
const NOT_FOUND: [&str; 5] = [
    "Name or service not known",
    "No address associated with hostname",
    "Name does not resolve",
    "nodename nor servname provided",
    "Name has no usable address",
];

pub(super) fn conclude(name: &str, error: &str, has_route: bool) -> Trouble {
    if !has_route {
        return Trouble::Offline(error.to_owned());
    }
    if NOT_FOUND.iter().any(|text| error.contains(text)) {
        Trouble::NameNotFound(name.to_owned())
    } else {
        Trouble::NameLookupFailed(error.to_owned())
    }
}
