//! Conclusions from a failed name lookup.
use super::Trouble;

pub(super) fn conclude(name: &str, error: &str, has_route: bool) -> Trouble {
    if !has_route {
        return Trouble::Offline(error.to_owned());
    }
    if longhaul_origin::means_not_found(error) {
        Trouble::NameNotFound(name.to_owned())
    } else {
        Trouble::NameLookupFailed(error.to_owned())
    }
}
