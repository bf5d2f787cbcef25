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
    Cause, CrossOrigin, Destination, Reference, Relation, Trust,
    jar::{Cookies, Jar, is_trustworthy},
};

/// What is known of the browser that loads a page.
#[derive(Clone, Debug)]
pub struct Predictor {
    browser: Browser,
    request: HeaderMap,
}

/// A predicted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Its header section, without `Host` and fields that concern a connection.
    pub fields: HeaderMap,
    /// The browser may send cookies that are not in it: a response for one user alone is then not the browser's.
    pub is_withheld: bool,
}

impl Predictor {
    /// A page that the browser asked for with the header section `request`.
    pub fn new(request: &HeaderMap) -> Self {
        Self {
            browser: Browser::of(request),
            request: request.clone(),
        }
    }

    /// The request for `reference`, which the browser makes because of `cause`. Cookies are those of `jar`, as the
    /// credentials mode and the initiator let them through.
    pub fn predict(
        &self,
        reference: &Reference,
        cause: &Cause,
        templates: &Templates,
        jar: &Jar,
        now: UnixTime,
    ) -> Prediction {
        let target = &reference.url;
        let cookies = if sends_cookies(reference, cause) {
            jar.cookies_for(target, cause, now)
        } else {
            Cookies::Known(None)
        };
        let (cookie, is_withheld) = match cookies {
            Cookies::Known(None) => (None, false),
            Cookies::Known(cookie) if reference.trust == Trust::Own => (cookie, false),
            Cookies::Known(_) | Cookies::Withheld => (None, true),
        };
        let request = Request {
            predictor: self,
            reference,
            relation: cause.relation(target),
            referer: self.referer(reference, cause),
            cookie,
            origin: self.origin(reference, cause),
            storage_access: self
                .tells_storage_access(reference, cause)
                .then(|| templates.storage_access()),
        };
        let kind = Kind::new(target, reference.destination, request.origin.is_some());
        let mut fields = HeaderMap::new();
        match templates.of(kind) {
            Some(template) => request.write_learned(&template.0, &mut fields),
            None => request.write_default(&mut fields),
        }
        self.add_reload(&mut fields);
        Prediction { fields, is_withheld }
    }

    /// By the policy of the element, the sheet or the document; that of a redirection replaces it.
    fn referer(&self, reference: &Reference, cause: &Cause) -> Option<String> {
        let initiator = &cause.initiator;
        let sheet = cause.sheet.as_ref();
        let policy = cause
            .redirect_policy
            .or(reference.referrer_policy)
            .or_else(|| sheet.and_then(|(_, policy)| *policy))
            .or_else(|| initiator.referrer_policy());
        let referrer = match sheet {
            Some((url, _)) => url,
            None => initiator.referrer()?,
        };
        // A redirection takes away what its target may not see, and nothing gives it back.
        let mut urls = cause.redirects.iter().chain([&reference.url]);
        let first = referer(policy.unwrap_or_default(), referrer, urls.next()?)?;
        urls.try_fold(first, |told, url| {
            referer(policy.unwrap_or_default(), &Url::parse(&told).ok()?, url)
        })
    }

    /// Storage Access headers: requests of other sites with credentials say whether these may go along.
    fn tells_storage_access(&self, reference: &Reference, cause: &Cause) -> bool {
        let target = &reference.url;
        let with_credentials = matches!(
            reference.cross_origin,
            CrossOrigin::None | CrossOrigin::Credentials
        );
        with_credentials
            && !reference.destination.is_document()
            && is_trustworthy(target)
            && cause.relation(target) == Relation::CrossSite
            && browser::chromium_version(&self.request).is_some_and(|version| version >= STORAGE_ACCESS)
    }

    /// Requests in CORS mode tell their origin to others; Chromium to its own as well, where markup or a font makes
    /// the request. No referrer policy hides it (Fetch standard 3.2).
    fn origin(&self, reference: &Reference, cause: &Cause) -> Option<HeaderValue> {
        let own = cause.is_same_origin(&reference.url);
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
        HeaderValue::from_str(&cause.origin(&reference.url)).ok()
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

/// Fetch standard: credentials mode `omit`, `same-origin` or `include`.
fn sends_cookies(reference: &Reference, cause: &Cause) -> bool {
    match reference.cross_origin {
        CrossOrigin::None | CrossOrigin::Credentials => true,
        CrossOrigin::Anonymous => cause.is_same_origin(&reference.url),
        CrossOrigin::Omitted => false,
    }
}

/// One request in the making.
struct Request<'a> {
    predictor: &'a Predictor,
    reference: &'a Reference,
    relation: Relation,
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
        if self.relation == Relation::SameOrigin {
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
        HeaderValue::from_static(self.relation.name())
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
