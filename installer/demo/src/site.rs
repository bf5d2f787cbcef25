//! The built-in site, `http://demo.test/`: a page that explains Longhaul. Its pictures are JPEG files of ordinary
//! quality (85, 4:2:0), as on other sites.
use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;

use longhaul_replay::{origin::VirtualHost, page::Expectation};

/// The site's files by path.
#[derive(Debug)]
pub struct Site {
    files: BTreeMap<&'static str, File>,
}

#[derive(Debug)]
struct File {
    media_type: &'static str,
    validator: String,
    body: Bytes,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const FILES: [(&str, &str, &[u8]); 10] = [
    ("/", HTML, include_bytes!("site/index.html")),
    ("/css/site.css", CSS, include_bytes!("site/site.css")),
    ("/css/base.css", CSS, include_bytes!("site/base.css")),
    ("/js/site.js", JAVASCRIPT, include_bytes!("site/site.js")),
    (
        "/img/hop.svg",
        "image/svg+xml",
        include_bytes!("site/img/hop.svg"),
    ),
    (
        "/img/horizon.jpg",
        "image/jpeg",
        include_bytes!("site/img/horizon.jpg"),
    ),
    ("/img/ship.jpg", "image/jpeg", include_bytes!("site/img/ship.jpg")),
    (
        "/img/train.jpg",
        "image/jpeg",
        include_bytes!("site/img/train.jpg"),
    ),
    (
        "/img/station.jpg",
        "image/jpeg",
        include_bytes!("site/img/station.jpg"),
    ),
    ("/img/icon.png", "image/png", include_bytes!("site/img/icon.png")),
];

impl Site {
    /// Host name of the site; `.test` does not exist in the public DNS (RFC 6761).
    pub const HOST: &'static str = "demo.test";
    /// URL of the site.
    pub const URL: &'static str = "http://demo.test/";

    /// Returns the site.
    pub fn built_in() -> Self {
        let mut files = BTreeMap::new();
        for (path, media_type, body) in FILES {
            // CRC-32 suffices to distinguish versions of these files; none of them is hostile.
            let mut check = flate2::Crc::new();
            check.update(body);
            let validator = format!("\"{:08x}-{:x}\"", check.sum(), body.len());
            let body = Bytes::from_static(body);
            files.insert(
                path,
                File {
                    media_type,
                    validator,
                    body,
                },
            );
        }
        Self { files }
    }

    /// The paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.files.keys().copied()
    }

    /// The sizes of all files in bytes.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.files.values().map(|file| file.body.len() as u64)
    }
}

impl VirtualHost for Site {
    fn name(&self) -> &str {
        Self::HOST
    }

    fn answer(
        &self,
        method: &Method,
        path: &str,
        if_none_match: Option<&HeaderValue>,
    ) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::default());
        if !matches!(*method, Method::GET | Method::HEAD) {
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            response
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let Some(file) = self.files.get(path) else {
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        };
        let headers = response.headers_mut();
        if let Ok(validator) = HeaderValue::from_str(&file.validator) {
            headers.insert(header::ETAG, validator);
        }
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=60"),
        );
        let known = if_none_match.and_then(|value| value.to_str().ok());
        let weak = |candidate: &str| candidate.trim().trim_start_matches("W/") == file.validator;
        if known.is_some_and(|known| known.trim() == "*" || known.split(',').any(weak)) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.media_type));
        *response.body_mut() = Full::new(file.body.clone());
        response
    }

    fn expect(&self, path: &str) -> Expectation {
        self.files
            .get(path)
            .map_or(Expectation::Missing, |file| Expectation::Answer {
                status: StatusCode::OK,
                body: Some(file.body.clone()),
            })
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;
    use longhaul_page::{Viewport, discover_css, discover_html};

    #[test]
    fn every_file_is_used_and_every_use_is_a_file() {
        let site = Site::built_in();
        let page = Url::parse(Site::URL).unwrap();
        let body = |path: &str| site.files[path].body.clone();
        let mut used = vec!["/".to_owned()];
        let mut found = discover_html(&body("/"), &page, None, Viewport::default());
        while let Some(reference) = found.pop() {
            let path = reference.url.path().to_owned();
            assert!(site.files.contains_key(path.as_str()), "{path}");
            if path.ends_with(".css") {
                let sheet = discover_css(&body(&path), &reference.url, None, Viewport::default());
                found.extend(sheet);
            }
            used.push(path);
        }
        used.sort();
        used.dedup();
        assert_eq!(used, site.paths().collect::<Vec<_>>());
    }

    #[test]
    fn a_known_copy_is_confirmed() {
        let site = Site::built_in();
        let first = site.answer(&Method::GET, "/css/site.css", None);
        let again = site.answer(&Method::GET, "/css/site.css", first.headers().get(header::ETAG));
        assert_eq!(
            (first.status(), again.status()),
            (StatusCode::OK, StatusCode::NOT_MODIFIED)
        );
        assert_eq!(
            site.answer(&Method::GET, "/no", None).status(),
            StatusCode::NOT_FOUND
        );
    }
}
