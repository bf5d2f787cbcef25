//! The built-in site, `http://demo.test/`: a page that explains Longhaul, with images painted at start.
mod paint;
mod png;

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;

use longhaul_replay::{origin::VirtualHost, page::Expectation};
use paint::Scene;

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

impl Site {
    /// Host name of the site; `.test` does not exist in the public DNS (RFC 6761).
    pub const HOST: &'static str = "demo.test";
    /// URL of the site.
    pub const URL: &'static str = "http://demo.test/";

    /// Returns the site with its images. The bytes are always equal.
    pub fn paint() -> Self {
        let html = "text/html; charset=utf-8";
        let css = "text/css; charset=utf-8";
        let mut files = BTreeMap::new();
        let mut add = |path, media_type, body: Vec<u8>| {
            // CRC-32 suffices to distinguish versions of these files; none of them is hostile.
            let mut check = flate2::Crc::new();
            check.update(&body);
            let validator = format!("\"{:08x}-{:x}\"", check.sum(), body.len());
            let body = Bytes::from(body);
            files.insert(
                path,
                File {
                    media_type,
                    validator,
                    body,
                },
            );
        };
        add("/", html, include_bytes!("index.html").to_vec());
        add("/css/site.css", css, include_bytes!("site.css").to_vec());
        add("/css/base.css", css, include_bytes!("base.css").to_vec());
        add(
            "/js/site.js",
            "text/javascript; charset=utf-8",
            include_bytes!("site.js").to_vec(),
        );
        add(
            "/img/hop.svg",
            "image/svg+xml",
            include_bytes!("hop.svg").to_vec(),
        );
        for (path, scene, width, height) in [
            ("/img/horizon.png", Scene::Mountains, 960, 336),
            ("/img/ship.png", Scene::Sea, 400, 250),
            ("/img/train.png", Scene::Hills, 400, 250),
            ("/img/station.png", Scene::Ice, 400, 250),
            ("/img/icon.png", Scene::Mountains, 32, 32),
        ] {
            add(
                path,
                "image/png",
                png::encode(&paint::paint(scene, width, height)),
            );
        }
        Self { files }
    }

    /// The paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.files.keys().copied()
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
        let site = Site::paint();
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
    fn pictures_are_the_same_every_time() {
        let (one, two) = (Site::paint(), Site::paint());
        for path in one.paths() {
            assert_eq!(one.files[path].body, two.files[path].body, "{path}");
        }
    }

    #[test]
    fn a_known_copy_is_confirmed() {
        let site = Site::paint();
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
