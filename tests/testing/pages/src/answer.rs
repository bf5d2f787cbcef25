//! Responses of a page's hosts.
use std::{io::Write as _, time::SystemTime};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_replay::page::DecodeError;

use crate::media;

/// A complete response, as the origin stores it. The server adds `Date`, `Content-Length` and framing.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Header fields, with `Content-Type` and validators.
    pub headers: HeaderMap,
    /// The body, in the content coding that the header fields state.
    pub body: Bytes,
}

impl Answer {
    /// Returns the media type in lower case, without parameters; empty if there is none.
    pub fn media_type(&self) -> String {
        media::media_type(&self.headers)
    }

    /// Returns true if the body is text that the ideal download compresses.
    pub fn is_text(&self) -> bool {
        media::is_text(&self.media_type())
    }

    /// Returns the body without its content codings.
    ///
    /// # Errors
    /// The body does not match its `Content-Encoding`.
    pub fn decoded(&self) -> Result<Bytes, DecodeError> {
        let codings = self.headers.get_all(header::CONTENT_ENCODING).iter();
        let codings: Vec<&str> = codings.filter_map(|value| value.to_str().ok()).collect();
        if codings.is_empty() {
            return Ok(self.body.clone());
        }
        longhaul_replay::page::decode(&codings.join(","), &self.body).map(Bytes::from)
    }

    /// Removes the fields that make browsers load the site's other objects over https.
    pub(crate) fn stay_on_http(&mut self) {
        self.headers.remove(header::STRICT_TRANSPORT_SECURITY);
        let Some(policy) = self.headers.get(header::CONTENT_SECURITY_POLICY) else {
            return;
        };
        let Ok(policy) = policy.to_str() else { return };
        let upgrades = |directive: &&str| directive.trim().eq_ignore_ascii_case("upgrade-insecure-requests");
        if policy.split(';').any(|directive| upgrades(&directive)) {
            let rest: Vec<&str> = policy
                .split(';')
                .filter(|directive| !upgrades(directive))
                .collect();
            match HeaderValue::from_str(rest.join(";").trim()) {
                Ok(rest) if !rest.is_empty() => {
                    self.headers.insert(header::CONTENT_SECURITY_POLICY, rest);
                }
                _ => {
                    self.headers.remove(header::CONTENT_SECURITY_POLICY);
                }
            }
        }
    }

    /// Returns true if the client that sent these request fields already has this response, so that it gets
    /// 304 without a body (RFC 9110 section 13.2.2: `If-None-Match` takes precedence over
    /// `If-Modified-Since`).
    pub fn is_held_by(&self, request: &HeaderMap) -> bool {
        if !self.status.is_success() {
            return false;
        }
        if request.contains_key(header::IF_NONE_MATCH) {
            let own = self.headers.get(header::ETAG).and_then(opaque_tag);
            let mut candidates = request.get_all(header::IF_NONE_MATCH).iter();
            return candidates.any(|list| {
                list.to_str().is_ok_and(|list| {
                    list.trim() == "*"
                        || list
                            .split(',')
                            .any(|tag| Some(tag.trim().trim_start_matches("W/")) == own)
                })
            });
        }
        let held = request.get(header::IF_MODIFIED_SINCE).and_then(date);
        let own = self.headers.get(header::LAST_MODIFIED).and_then(date);
        matches!((held, own), (Some(held), Some(own)) if own <= held)
    }

    /// Returns this response as an origin with `gzip -9` sends it to a client that accepts gzip: unchanged if
    /// it is not text, is already coded, has no body, or would grow.
    #[must_use]
    pub fn gzipped(&self) -> Self {
        let fixed = !self.is_text() || self.headers.contains_key(header::CONTENT_ENCODING);
        if fixed || self.body.is_empty() {
            return self.clone();
        }
        let coded = gzip(&self.body);
        if coded.len() >= self.body.len() {
            return self.clone();
        }
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        // Two codings of one resource are two representations, which need separate validators.
        if let Some(tag) = self.headers.get(header::ETAG).and_then(opaque_tag) {
            let tag = format!("{}-gz\"", tag.trim_end_matches('"'));
            if let Ok(tag) = HeaderValue::from_str(&tag) {
                headers.insert(header::ETAG, tag);
            }
        }
        Self {
            status: self.status,
            headers,
            body: coded.into(),
        }
    }
}

/// Returns `gzip -9` of `body`.
pub(crate) fn gzip(body: &[u8]) -> Vec<u8> {
    let mut coder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail; if the coder did, the empty result would count as no gain.
    let coded = coder.write_all(body).and_then(|()| coder.finish());
    coded.unwrap_or_else(|_| body.to_vec())
}

fn opaque_tag(value: &HeaderValue) -> Option<&str> {
    Some(value.to_str().ok()?.trim().trim_start_matches("W/"))
}

fn date(value: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(value.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(fields: &[(&'static str, &'static str)], body: &str) -> Answer {
        Answer {
            status: StatusCode::OK,
            headers: headers(fields),
            body: Bytes::copy_from_slice(body.as_bytes()),
        }
    }

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields.iter();
        fields
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn matching_validators_are_recognised() {
        let answer = answer(
            &[
                ("etag", "\"a\""),
                ("last-modified", "Tue, 04 Mar 2003 10:00:00 GMT"),
            ],
            "x",
        );
        for (field, value, held) in [
            ("if-none-match", "\"b\", W/\"a\"", true),
            ("if-none-match", "*", true),
            ("if-none-match", "\"b\"", false),
            ("if-modified-since", "Tue, 04 Mar 2003 10:00:00 GMT", true),
            ("if-modified-since", "Tue, 04 Mar 2003 09:59:59 GMT", false),
            ("if-modified-since", "yesterday", false),
        ] {
            assert_eq!(answer.is_held_by(&headers(&[(field, value)])), held, "{value}");
        }
        assert!(!answer.is_held_by(&headers(&[
            ("if-none-match", "\"b\""),
            ("if-modified-since", "Tue, 04 Mar 2003 10:00:00 GMT")
        ])));
        assert!(!answer.is_held_by(&HeaderMap::new()));
    }

    #[test]
    fn fields_that_change_to_https_are_removed() {
        for (policy, left) in [
            ("upgrade-insecure-requests", None),
            (
                "default-src 'self'; Upgrade-Insecure-Requests;",
                Some("default-src 'self';"),
            ),
            ("img-src *", Some("img-src *")),
        ] {
            let mut answer = answer(&[("strict-transport-security", "max-age=9")], "");
            let policy = HeaderValue::from_static(policy);
            answer.headers.insert(header::CONTENT_SECURITY_POLICY, policy);
            answer.stay_on_http();
            let found = answer.headers.get(header::CONTENT_SECURITY_POLICY);
            assert_eq!(found.map(|found| found.to_str().unwrap()), left);
            assert!(!answer.headers.contains_key(header::STRICT_TRANSPORT_SECURITY));
        }
    }

    #[test]
    fn gzip_is_applied_only_to_text_that_shrinks() {
        let text = "the hop is never idle ".repeat(20);
        let plain = answer(&[("content-type", "text/html"), ("etag", "\"a\"")], &text);
        let coded = plain.gzipped();
        assert_eq!(coded.headers["content-encoding"], "gzip");
        assert_eq!(coded.headers["etag"], "\"a-gz\"");
        assert_eq!(coded.decoded().unwrap(), plain.body);
        assert_eq!(
            coded.gzipped().body,
            coded.body,
            "a coded body is not coded again"
        );
        let image = answer(&[("content-type", "image/png")], &text);
        assert_eq!(image.gzipped().body, image.body);
        let short = answer(&[("content-type", "text/css")], "a{}");
        assert!(!short.gzipped().headers.contains_key("content-encoding"));
    }
}
