//! The page between a navigation that has no requester and a host of the local network.
//!
//! Nobody can tell such a navigation of the user from one that a page of the Internet causes without a referrer. This page is
//! displayed in a window of its own only, never in a frame, and then asks again: its request names this document, which is of
//! the local host, as its requester. So frames and hidden requests of other pages end here.
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use maud::{PreEscaped, html};
use ring::digest::{SHA256, digest};

use super::frame::document;

/// Asks again, once for each host within some seconds: a browser that names no requester would ask for ever.
const SCRIPT: &str = "var n='longhaul '+location.host+' '+Math.floor(Date.now()/8000);\
if(window.name!==n){window.name=n;location.replace(location.pathname+location.search)}";

/// The page for the host of a URL.
pub(crate) fn local_network_response(url: &str) -> Response<Bytes> {
    let title = "A device in your own network";
    let main = html! {
        h1 { (title) }
        p { "The browser asks for it through Longhaul, which opens it without the gateway." }
        dl {
            dt { "Asked for" }
            dd { code { (url) } }
            dt { "If it does not open by itself" }
            dd { a href="" { "Open it" } ", or use the agent's proxy script in the browser: it leaves such addresses to the browser." }
        }
        script { (PreEscaped(SCRIPT)) }
    };
    let mut response = Response::new(Bytes::from(document(title, &main).into_string()));
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; frame-ancestors 'none'; base-uri 'none'",
        STANDARD.encode(digest(&SHA256, SCRIPT.as_bytes()))
    );
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_frame_displays_the_page_and_only_its_script_runs() {
        let response = local_network_response("http://192.168.0.1/?<script>");
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY]
            .to_str()
            .unwrap();
        assert!(
            policy.contains("frame-ancestors 'none'") && policy.contains("script-src 'sha256-"),
            "{policy}"
        );
        assert_eq!(response.headers()[header::X_FRAME_OPTIONS], "DENY");
        let text = String::from_utf8(response.body().to_vec()).unwrap();
        assert_eq!(text.matches("<script>").count(), 1, "{text}");
        assert!(text.contains(SCRIPT));
    }
}
