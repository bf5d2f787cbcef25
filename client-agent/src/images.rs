//! The user's image settings: the image levels of pages, and the responses that replace images at level text.
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

use crate::{proxy_body::ProxyBody, rules::SiteRules};

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
    rules: SiteRules,
    /// Hashes of the URLs of hidden images, newest last.
    hidden: Mutex<VecDeque<(ContentHash, Instant)>>,
}

impl ImageSettings {
    /// Creates the settings with the preferences that the gateway receives.
    pub fn new(preferences: watch::Sender<Preferences>, rules: SiteRules) -> Self {
        Self {
            preferences,
            rules,
            hidden: Mutex::default(),
        }
    }

    /// The image level of pages for which there is no rule.
    pub fn level(&self) -> ImageLevel {
        self.preferences.borrow().images
    }

    /// The image level of the pages of a host.
    pub(crate) fn level_for(&self, page_host: Option<&str>) -> ImageLevel {
        let by_rule = page_host.and_then(|host| self.rules.images(host));
        by_rule.unwrap_or_else(|| self.level())
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
    pub(crate) fn replacement(
        &self,
        level: ImageLevel,
        url: &str,
        request: &HeaderMap,
    ) -> Option<Response<ProxyBody>> {
        self.replacement_at(level, (url, request), Instant::now())
    }

    fn replacement_at(
        &self,
        level: ImageLevel,
        (url, request): (&str, &HeaderMap),
        now: Instant,
    ) -> Option<Response<ProxyBody>> {
        let hides = level == ImageLevel::Text
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

/// True if a response may answer a request at an image level: it is no transcoded image, or one of this level or a better
/// one.
pub(crate) fn suits(level: ImageLevel, response: &HeaderMap) -> bool {
    let Some(name) = transcoded_image::level(response) else {
        return true;
    };
    let mut levels = ImageLevel::ALL.into_iter();
    levels.any(|made| made.name() == name && made <= level)
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
    use crate::{rules::RuleChange, state_dir::StateDir};

    fn request(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect()
    }

    const ACCEPT: (&str, &str) = ("accept", "image/avif,image/webp,*/*;q=0.8");

    fn settings() -> ImageSettings {
        let none = StateDir::new("/nonexistent/longhaul".into());
        let rules = SiteRules::open(&none).unwrap();
        ImageSettings::new(watch::Sender::new(Preferences::default()), rules)
    }

    #[test]
    fn at_level_text_images_are_replaced_until_requested() {
        let pictures = settings();
        let shown = request(&[ACCEPT]);
        let status = |url: &str, request: &HeaderMap| {
            pictures
                .replacement(pictures.level_for(None), url, request)
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
        let pictures = settings();
        pictures.set_level(ImageLevel::Text);
        let shown = request(&[ACCEPT]);
        let start = Instant::now();
        let ask = |url: &str, at| {
            pictures
                .replacement_at(ImageLevel::Text, (url, &shown), at)
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

    #[tokio::test]
    async fn the_rule_of_the_pages_site_comes_before_the_level() {
        let home = tempfile::tempdir().unwrap();
        let rules = SiteRules::open(&StateDir::new(home.path().to_owned())).unwrap();
        let pictures = ImageSettings::new(watch::Sender::new(Preferences::default()), rules.clone());
        pictures.set_level(ImageLevel::Low);
        let rule = RuleChange::Images("a.test".parse().unwrap(), Some(ImageLevel::Text));
        rules.change(&[rule]).await.unwrap();
        assert_eq!(pictures.level_for(Some("www.a.test")), ImageLevel::Text);
        assert_eq!(pictures.level_for(Some("b.test")), ImageLevel::Low);
        assert_eq!(pictures.level_for(None), ImageLevel::Low);
    }

    #[test]
    fn an_image_of_a_lower_level_does_not_answer() {
        let made = |level: &'static str| request(&[("x-longhaul", level)]);
        assert!(suits(ImageLevel::Original, &request(&[])));
        assert!(!suits(ImageLevel::Original, &made("image=high")));
        assert!(suits(ImageLevel::Medium, &made("image=high")));
        assert!(suits(ImageLevel::Medium, &made("image=medium")));
        assert!(!suits(ImageLevel::Medium, &made("image=low")));
        assert!(!suits(ImageLevel::Text, &made("image=unknown")));
    }
}
