//! The header section that this browser will send for a reference, so that the origin's answer is the one it would
//! get, and so that the answer fits the browser's request when that comes.
//!
//! What is known of the browser comes from its request for the page, from the requests for objects that it made in
//! this session ([`Templates`]), and from what its engine does (observed of Chromium 156; documented for others).
mod accept;
mod browser;
mod destination;
mod referer;
mod template;
#[cfg(test)]
mod tests;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use longhaul_http::policy::{Reload, reload};
use longhaul_types::UnixTime;
use url::Url;

use self::template::Kind;
pub use self::{browser::Browser, destination::destination_of, referer::referer, template::Templates};
use crate::{
    CrossOrigin, Destination, Reference, ReferrerPolicy,
    jar::{Jar, is_same_site, is_trustworthy},
};

/// What is known of the page and of the browser that loads it.
#[derive(Clone, Debug)]
pub struct Predictor {
    browser: Browser,
    /// After redirects: the document's own URL.
    page: Url,
    request: HeaderMap,
    policy: ReferrerPolicy,
}

impl Predictor {
    /// A page at `page`, which the browser asked for with the header section `request`. `policy` is that of the
    /// page's response ([`ReferrerPolicy::of_response`]); references may declare others.
    pub fn new(page: &Url, request: &HeaderMap, policy: Option<ReferrerPolicy>) -> Self {
        Self {
            browser: Browser::of(request),
            page: page.clone(),
            request: request.clone(),
            policy: policy.unwrap_or_default(),
        }
    }

    /// The header section for `reference`, found in what `referrer` names: the page, a frame, or a style sheet.
    /// `policy` is the referrer policy of that style sheet or frame, `None` for the page itself.
    ///
    /// It has neither `Host` nor fields that concern a connection. Cookies are those of `jar`, as the credentials mode
    /// lets them through.
    pub fn predict(
        &self,
        reference: &Reference,
        referrer: &Url,
        policy: Option<ReferrerPolicy>,
        templates: &Templates,
        jar: &Jar,
        now: UnixTime,
    ) -> HeaderMap {
        let policy = reference.referrer_policy.or(policy).unwrap_or(self.policy);
        let request = Request {
            predictor: self,
            reference,
            referer: referer(policy, referrer, &reference.url),
            cookie: self
                .sends_cookies(reference)
                .then(|| jar.cookie_for(&reference.url, &self.page, now))
                .flatten(),
            origin: self.origin(reference),
            storage_access: self
                .tells_storage_access(reference)
                .then(|| templates.storage_access()),
        };
        let kind = Kind::new(&reference.url, reference.destination, request.origin.is_some());
        let mut fields = HeaderMap::new();
        match templates.of(kind) {
            Some(template) => request.write_learned(&template.0, &mut fields),
            None => request.write_default(&mut fields),
        }
        self.add_reload(&mut fields);
        fields
    }

    /// Fetch standard: credentials mode `omit`, `same-origin` or `include`.
    fn sends_cookies(&self, reference: &Reference) -> bool {
        match reference.cross_origin {
            CrossOrigin::None | CrossOrigin::Credentials => true,
            CrossOrigin::Anonymous => self.is_own_origin(&reference.url),
            CrossOrigin::Omitted => false,
        }
    }

    /// Storage Access headers: requests of other sites with credentials say whether these may go along.
    fn tells_storage_access(&self, reference: &Reference) -> bool {
        let target = &reference.url;
        let with_credentials = matches!(
            reference.cross_origin,
            CrossOrigin::None | CrossOrigin::Credentials
        );
        with_credentials
            && !reference.destination.is_document()
            && is_trustworthy(target)
            && !is_same_site(&self.page, target)
            && browser::chromium_version(&self.request).is_some_and(|version| version >= STORAGE_ACCESS)
    }

    fn is_own_origin(&self, url: &Url) -> bool {
        url.origin() == self.page.origin()
    }

    /// Requests in CORS mode tell their origin to others; Chromium to its own as well, where markup or a font makes
    /// the request. No referrer policy hides it (Fetch standard 3.2).
    fn origin(&self, reference: &Reference) -> Option<HeaderValue> {
        let own = self.is_own_origin(&reference.url);
        let told = match reference.cross_origin {
            CrossOrigin::None => false,
            CrossOrigin::Omitted => !own,
            CrossOrigin::Anonymous | CrossOrigin::Credentials => {
                !own || self.browser == Browser::Chromium && reference.destination != Destination::Other
            }
        };
        if !told {
            return None;
        }
        HeaderValue::from_str(&self.page.origin().ascii_serialization()).ok()
    }

    /// A reload without caches extends to what the page loads; the plain reload does not, in current browsers.
    fn add_reload(&self, fields: &mut HeaderMap) {
        if reload(&self.request) == Reload::Bypass {
            for name in [header::PRAGMA, header::CACHE_CONTROL] {
                copy(&self.request, &name, fields);
            }
        }
    }
}

/// One request in the making.
struct Request<'a> {
    predictor: &'a Predictor,
    reference: &'a Reference,
    referer: Option<String>,
    cookie: Option<HeaderValue>,
    origin: Option<HeaderValue>,
    storage_access: Option<HeaderValue>,
}

impl Request<'_> {
    /// The learned fields in the learned order.
    fn write_learned(&self, template: &[(HeaderName, Option<HeaderValue>)], fields: &mut HeaderMap) {
        for (name, value) in template {
            match value {
                Some(value) => {
                    fields.insert(name.clone(), value.clone());
                }
                None => self.write(name, fields),
            }
        }
        // What the learned request happened not to have.
        for name in [
            header::ACCEPT_ENCODING,
            header::REFERER,
            header::COOKIE,
            SEC_FETCH_STORAGE_ACCESS,
        ] {
            if !fields.contains_key(&name) {
                self.write(&name, fields);
            }
        }
    }

    /// All fields in the engine's order.
    fn write_default(&self, fields: &mut HeaderMap) {
        let order = match self.predictor.browser {
            Browser::Firefox => &FIREFOX[..],
            Browser::Chromium | Browser::Safari | Browser::Other => &CHROMIUM[..],
        };
        for name in order {
            self.write(name, fields);
        }
        // Client hints that the origin asked for, which only its own requests carry.
        if self.predictor.is_own_origin(&self.reference.url) {
            for name in self.predictor.request.keys().filter(|name| is_hint(name)) {
                if !fields.contains_key(name) {
                    copy(&self.predictor.request, name, fields);
                }
            }
        }
    }

    /// Adds the field `name` as this request has it, if it does.
    fn write(&self, name: &HeaderName, fields: &mut HeaderMap) {
        let target = &self.reference.url;
        let page = &self.predictor.request;
        let trustworthy = is_trustworthy(target);
        let value = match name.as_str() {
            "accept" => text(&accept::accept(
                self.predictor.browser,
                page,
                self.reference.destination,
            )),
            "cookie" => self.cookie.clone(),
            "origin" => self.origin.clone(),
            "referer" => self.referer.as_deref().and_then(text),
            "sec-fetch-site" if trustworthy => self.is_modern().then(|| self.site()),
            "sec-fetch-mode" if trustworthy => self.is_modern().then(|| self.mode()),
            "sec-fetch-dest" if trustworthy => self.is_modern().then(|| self.dest()),
            "sec-fetch-storage-access" => self.storage_access.clone(),
            "sec-ch-ua" | "sec-ch-ua-mobile" | "sec-ch-ua-platform" if !trustworthy => None,
            "upgrade-insecure-requests" if !self.reference.destination.is_document() => None,
            "sec-fetch-site" | "sec-fetch-mode" | "sec-fetch-dest" => None,
            _ => page.get(name).cloned(),
        };
        if let Some(value) = value {
            fields.insert(name.clone(), value);
        }
    }

    /// Whether the browser sends fetch metadata to trustworthy targets: all engines do since 2023.
    fn is_modern(&self) -> bool {
        self.predictor.browser != Browser::Other || self.predictor.request.contains_key("sec-fetch-dest")
    }

    fn site(&self) -> HeaderValue {
        let (page, target) = (&self.predictor.page, &self.reference.url);
        HeaderValue::from_static(if page.origin() == target.origin() {
            "same-origin"
        } else if is_same_site(page, target) {
            "same-site"
        } else {
            "cross-site"
        })
    }

    fn mode(&self) -> HeaderValue {
        let documents = self.reference.destination.is_document();
        HeaderValue::from_static(match self.reference.cross_origin {
            _ if documents => "navigate",
            CrossOrigin::None if self.reference.destination == Destination::Other => "cors",
            CrossOrigin::None => "no-cors",
            CrossOrigin::Anonymous | CrossOrigin::Credentials | CrossOrigin::Omitted => "cors",
        })
    }

    fn dest(&self) -> HeaderValue {
        HeaderValue::from_static(match self.reference.destination {
            Destination::Document => "document",
            Destination::Frame => "iframe",
            Destination::Style | Destination::InactiveStyle => "style",
            Destination::Script => "script",
            Destination::Image | Destination::Icon => "image",
            Destination::Font => "font",
            Destination::Manifest => "manifest",
            Destination::Other => "empty",
        })
    }
}

fn copy(from: &HeaderMap, name: &HeaderName, to: &mut HeaderMap) {
    for value in from.get_all(name) {
        to.append(name.clone(), value.clone());
    }
}

fn text(value: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(value).ok()
}

/// Fields that origins ask for with `Accept-CH`.
fn is_hint(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("sec-ch-") || HINTS.contains(&name)
}

const HINTS: [&str; 7] = [
    "device-memory",
    "downlink",
    "dpr",
    "ect",
    "rtt",
    "viewport-width",
    "width",
];

const SEC_CH_UA: HeaderName = HeaderName::from_static("sec-ch-ua");
const SEC_CH_UA_MOBILE: HeaderName = HeaderName::from_static("sec-ch-ua-mobile");
const SEC_CH_UA_PLATFORM: HeaderName = HeaderName::from_static("sec-ch-ua-platform");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_STORAGE_ACCESS: HeaderName = HeaderName::from_static("sec-fetch-storage-access");
const SEC_GPC: HeaderName = HeaderName::from_static("sec-gpc");
const SAVE_DATA: HeaderName = HeaderName::from_static("save-data");

/// As Chromium 156 sends them; Chromium's order also serves for unknown engines.
static CHROMIUM: [HeaderName; 18] = [
    header::ORIGIN,
    SEC_CH_UA_PLATFORM,
    header::UPGRADE_INSECURE_REQUESTS,
    header::USER_AGENT,
    SEC_CH_UA,
    header::DNT,
    SAVE_DATA,
    SEC_GPC,
    SEC_CH_UA_MOBILE,
    header::ACCEPT,
    SEC_FETCH_SITE,
    SEC_FETCH_MODE,
    SEC_FETCH_DEST,
    SEC_FETCH_STORAGE_ACCESS,
    header::REFERER,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::COOKIE,
];
/// The first version of Chromium with `Sec-Fetch-Storage-Access`.
const STORAGE_ACCESS: u32 = 133;
static FIREFOX: [HeaderName; 13] = [
    header::USER_AGENT,
    header::ACCEPT,
    header::ACCEPT_LANGUAGE,
    header::ACCEPT_ENCODING,
    header::ORIGIN,
    header::DNT,
    SEC_GPC,
    header::REFERER,
    header::COOKIE,
    header::UPGRADE_INSECURE_REQUESTS,
    SEC_FETCH_DEST,
    SEC_FETCH_MODE,
    SEC_FETCH_SITE,
];
