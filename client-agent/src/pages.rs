//! Error pages: what happened in plain words, who is responsible, what to do, and the technical detail.
mod away;
mod bad_request;
mod failure;
mod frame;
mod gateway_reason;
mod hop;
mod local_network;
mod registered;
mod responsible;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use longhaul_session::FailureReason;
use maud::{Markup, html};

pub(crate) use away::{AwayPage, away_response};
pub use bad_request::BadRequest;
pub use failure::{Failure, Lost};
pub(crate) use frame::document;
pub(crate) use local_network::local_network_response;

use crate::proxy_body::ProxyBody;

/// The contents of an error page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The status code of the response.
    pub status: StatusCode,
    /// The heading.
    pub title: String,
    /// Description of the problem.
    pub what: String,
    /// The party at fault.
    pub whose: &'static str,
    /// The action for the reader to take.
    pub advice: String,
    /// Technical detail for support.
    pub detail: String,
    /// The reason, if it is one of the session's.
    pub reason: Option<FailureReason>,
}

/// Maximum length of the displayed detail: the gateway's own limit for details, and a bound on the page's
/// size.
const MAX_DETAIL: usize = 500;

impl Page {
    /// The page as HTML.
    pub fn to_html(&self) -> String {
        self.html_with(&Markup::default()).into_string()
    }

    /// The page with `more` at its end.
    fn html_with(&self, more: &Markup) -> Markup {
        let status = format!(
            "{} {}",
            self.status.as_u16(),
            self.status.canonical_reason().unwrap_or("")
        );
        let detail: String = self.detail.chars().take(MAX_DETAIL).collect();
        let main = html! {
            h1 { (self.title) }
            p { (self.what) }
            dl {
                dt { "Whose fault?" }
                dd { (self.whose) }
                dt { "What to do" }
                dd { (self.advice) }
                dt { "Detail" }
                dd { code { (status.trim_end()) " \u{b7} " (detail) } }
            }
            (more)
        };
        document(&self.title, &main)
    }

    /// The page as a response that must not be stored.
    pub fn to_response(&self) -> Response<Bytes> {
        self.to_response_with(&Markup::default())
    }

    /// The page with `more` at its end, as a response that must not be stored.
    pub(crate) fn to_response_with(&self, more: &Markup) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.html_with(more).into_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        headers.insert(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(frame::POLICY),
        );
        if let Ok(value) = HeaderValue::from_str(&self.proxy_status()) {
            headers.insert("proxy-status", value);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }

    /// Value of `Proxy-Status` (RFC 9209), as a string of structured fields: printable ASCII with `"` and `\`
    /// escaped.
    fn proxy_status(&self) -> String {
        let text = format!("{}: {}", self.title, self.detail);
        let mut details = String::with_capacity(text.len());
        for character in text.chars().filter(|c| matches!(c, ' '..='~')).take(MAX_DETAIL) {
            if matches!(character, '"' | '\\') {
                details.push('\\');
            }
            details.push(character);
        }
        // The error's registered name (RFC 9209 section 2.3), if one fits.
        let error = self
            .reason
            .and_then(registered::name_of)
            .map(|error| format!("error={error}; "))
            .unwrap_or_default();
        format!("longhaul; {error}details=\"{details}\"")
    }
}

/// Converts an error page into a response for the browser.
pub(crate) fn page_response(page: &Page) -> Response<ProxyBody> {
    page.to_response().map(ProxyBody::full)
}
