//! The user's image settings: the image level, and the responses that replace images at level text.
//!
//! A reload that bypasses caches (Ctrl+Shift+R in most browsers) shows the original images of a page at every
//! level: the gateway detects the kind of reload.
use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use longhaul_http::{
    policy::{self, Reload},
    transcoded_image,
};
use longhaul_session::{ImageLevel, Preferences};
use longhaul_types::ContentHash;
use tokio::{sync::watch, time::Instant};

use crate::proxy_body::ProxyBody;

/// Number of requests for one image within [`LOOP_TIME`] after which the page counts as retrying forever: it
/// then gets an empty image.
const LOOP_REQUESTS: usize = 5;
const LOOP_TIME: Duration = Duration::from_secs(10);
/// Maximum number of remembered requests: those of a large page.
const REMEMBERED: usize = 512;
/// An image without contents.
const EMPTY_IMAGE: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>"#;

/// The user's image settings.
#[derive(Debug)]
pub struct ImageSettings {
    preferences: watch::Sender<Preferences>,
    /// Hashes of the URLs of hidden images, newest last.
    hidden: Mutex<VecDeque<(ContentHash, Instant)>>,
}

impl ImageSettings {
    /// Creates the settings with the preferences that the gateway receives.
    pub fn new(preferences: watch::Sender<Preferences>) -> Self {
        Self {
            preferences,
            hidden: Mutex::default(),
        }
    }

    /// The image level.
    pub fn level(&self) -> ImageLevel {
        self.preferences.borrow().images
    }

    /// Sets the image level until the agent ends; the gateway receives the change.
    pub fn set_level(&self, level: ImageLevel) {
        self.preferences.send_if_modified(|preferences| {
            let changes = preferences.images != level;
            preferences.images = level;
            changes
        });
    }

    /// Returns the response to a GET for an image that is not to be loaded. Browsers then show the
    /// alternative text of the page.
    pub(crate) fn replacement(&self, url: &str, request: &HeaderMap) -> Option<Response<ProxyBody>> {
        self.replacement_at(url, request, Instant::now())
    }

    fn replacement_at(&self, url: &str, request: &HeaderMap, now: Instant) -> Option<Response<ProxyBody>> {
        let hides = self.level() == ImageLevel::Text
            && transcoded_image::is_for_display(request)
            && policy::reload(request) != Reload::Bypass;
        hides.then(|| {
            if self.is_loop(url, now) {
                placeholder(StatusCode::OK, EMPTY_IMAGE)
            } else {
                placeholder(StatusCode::NO_CONTENT, "")
            }
        })
    }

    fn is_loop(&self, url: &str, now: Instant) -> bool {
        let url = ContentHash::of(url.as_bytes());
        let mut hidden = self.hidden.lock();
        hidden.retain(|(_, at)| now.duration_since(*at) < LOOP_TIME);
        let before = hidden.iter().filter(|(other, _)| *other == url).count();
        if hidden.len() >= REMEMBERED {
            hidden.pop_front();
        }
        hidden.push_back((url, now));
        before >= LOOP_REQUESTS
    }
}

fn placeholder(status: StatusCode, body: &'static str) -> Response<ProxyBody> {
    let mut response = Response::new(ProxyBody::full(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    // The image must load at once when the user requests it.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(transcoded_image::FIELD, HeaderValue::from_static("image=text"));
    if !body.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("image/svg+xml"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect()
    }

    const ACCEPT: (&str, &str) = ("accept", "image/avif,image/webp,*/*;q=0.8");

    #[test]
    fn at_level_text_images_are_replaced_until_requested() {
        let pictures = ImageSettings::new(watch::Sender::new(Preferences::default()));
        let shown = request(&[ACCEPT]);
        let status = |url: &str, request: &HeaderMap| {
            pictures
                .replacement(url, request)
                .map(|response| response.status().as_u16())
        };
        assert_eq!(status("http://a.test/1.png", &shown), None);
        let mut told = pictures.preferences.subscribe();
        pictures.set_level(ImageLevel::Text);
        assert!(told.has_changed().unwrap());
        told.mark_unchanged();
        pictures.set_level(ImageLevel::Text);
        assert!(!told.has_changed().unwrap(), "nothing changed");
        assert_eq!(status("http://a.test/1.png", &shown), Some(204));
        let wanted = request(&[ACCEPT, ("cache-control", "no-cache")]);
        assert_eq!(status("http://a.test/1.png", &wanted), None);
        // Requests of scripts, and images opened as documents.
        assert_eq!(
            status("http://a.test/1.png", &request(&[("accept", "*/*")])),
            None
        );
        let alone = request(&[("accept", "text/html,image/webp,*/*;q=0.8")]);
        assert_eq!(status("http://a.test/1.png", &alone), None);
    }

    #[test]
    fn a_page_that_retries_an_image_for_long_gets_an_empty_image() {
        let pictures = ImageSettings::new(watch::Sender::new(Preferences::default()));
        pictures.set_level(ImageLevel::Text);
        let shown = request(&[ACCEPT]);
        let start = Instant::now();
        let ask = |url: &str, at| {
            pictures
                .replacement_at(url, &shown, at)
                .unwrap()
                .status()
                .as_u16()
        };
        for _ in 0..LOOP_REQUESTS {
            assert_eq!(ask("http://a.test/1.png", start), 204);
        }
        assert_eq!(ask("http://a.test/1.png", start), 200);
        assert_eq!(ask("http://a.test/2.png", start), 204);
        assert_eq!(ask("http://a.test/1.png", start + LOOP_TIME), 204);
    }
}
