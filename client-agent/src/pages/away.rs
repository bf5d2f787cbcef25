//! The page of a navigation that waits because the hop is away. It completes by itself.
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use maud::html;

use super::frame::{self, document};
use crate::trouble::Trouble;

/// Seconds after which the browser asks again. The agent then answers as soon as the hop is back.
const AGAIN: &str = "2";

/// What the page says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AwayPage<'a> {
    /// How long the gateway has been silent; `None` if it answers again.
    pub(crate) silent: Option<Duration>,
    /// How long the request has been waiting.
    pub(crate) waited: Duration,
    /// What was asked for.
    pub(crate) url: &'a str,
    /// What is wrong with the hop, if something is known.
    pub(crate) trouble: Option<&'a Trouble>,
}

/// The page as a response that must not be stored, and with which the browser asks again.
pub(crate) fn away_response(page: &AwayPage<'_>) -> Response<Bytes> {
    let title = "The link is away";
    let silent = page.silent.map_or_else(
        || "It answers again.".to_owned(),
        |silent| format!("It has been silent for {}.", in_words(silent)),
    );
    let main = html! {
        h1 { (title) }
        p { "This page has been asked for, and appears here by itself as soon as the gateway answers. " (silent) }
        dl {
            dt { "Asked for" }
            dd { code { (page.url) } }
            dt { "Waiting for" }
            dd { (in_words(page.waited)) }
            dt { "What to do" }
            dd { "Nothing: leave this page open. What the gateway had begun to load goes on loading there." }
            @if let Some(trouble) = page.trouble {
                dt { "Detail" }
                dd { code { (trouble.kind()) ": " (trouble) } }
            }
        }
    };
    let html = document(title, &main).into_string();
    let mut response = Response::new(Bytes::from(html));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    let fields = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, frame::POLICY),
        (header::REFRESH, AGAIN),
        (header::RETRY_AFTER, AGAIN),
    ];
    for (name, value) in fields {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(
        "proxy-status",
        HeaderValue::from_static(
            "longhaul; error=connection_timeout; details=\"the hop is away; the request waits\"",
        ),
    );
    response
}

fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_again_and_is_never_stored() {
        let response = away_response(&AwayPage {
            silent: Some(Duration::from_secs(7260)),
            waited: Duration::from_secs(600),
            url: "http://a.test/?<script>",
            trouble: None,
        });
        assert_eq!(response.status(), 503);
        let field = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(field("refresh"), AGAIN);
        assert_eq!(field("cache-control"), "no-store");
        let text = String::from_utf8(response.body().to_vec()).unwrap();
        assert!(
            text.contains("silent for 2 h 1 min") && text.contains("10 min"),
            "{text}"
        );
        assert!(!text.contains("<script>"), "{text}");
    }
}
