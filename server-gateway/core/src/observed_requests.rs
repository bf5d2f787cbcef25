//! What the requests of a browser tell about those that will follow.
use longhaul_page::{jar::CookiePathObservations, predict::Templates};

/// A browser's requests, as far as they help to predict others.
#[derive(Default)]
pub struct ObservedRequests {
    /// Fields of the requests for objects.
    pub templates: Templates,
    /// URLs with which the browser exchanged cookies.
    pub cookie_paths: CookiePathObservations,
}
