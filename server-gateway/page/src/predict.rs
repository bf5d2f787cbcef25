//! Prediction of the request fields that the browser will send for a reference, so that the origin's response
//! is the one that the browser would get, and matches the browser's later request.
//!
//! The prediction uses the browser's request for the page, its requests for objects in this session
//! ([`Templates`]), and the behaviour of its engine (observed for Chromium 156; documented for others).
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

use self::template::RequestKind;
pub use self::{browser::Browser, destination::destination_of, referer::referer, template::Templates};
use crate::{
    CredentialsPermission, CrossOrigin, Destination, Reference, Relation, RequestChain,
    jar::{Cookies, Jar, is_trustworthy},
};

/// Predictor of the requests of a page load's browser.
#[derive(Clone, Debug)]
pub struct Predictor {
    browser: Browser,
    request: HeaderMap,
}

/// A predicted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Header section, without `Host` and connection-specific fields.
    pub fields: HeaderMap,
    /// True if the browser may send cookies that the prediction lacks: a response for one user is then not
    /// valid for the browser.
    pub is_withheld: bool,
}

impl Predictor {
    /// Creates a predictor from the fields of the browser's request for the page.
    pub fn new(request: &HeaderMap) -> Self {
        Self {
            browser: Browser::of(request),
            request: request.clone(),
        }
    }

    /// Predicts the request for `reference`, which the browser makes because of `chain`. The cookies are
    /// those of `jar` that the credentials mode and the initiator permit.
    pub fn predict(
        &self,
        reference: &Reference,
        chain: &RequestChain,
        templates: &Templates,
        jar: &Jar,
        now: UnixTime,
    ) -> Prediction {
        let target = &reference.url;
        let cookies = if sends_cookies(reference.cross_origin, target, chain) {
            jar.cookies_for(target, chain, now)
        } else {
            Cookies::Known(None)
        };
        let (cookie, is_withheld) = match cookies {
            Cookies::Known(None) => (None, false),
            Cookies::Known(cookie) if reference.credentials == CredentialsPermission::ByCookieRules => {
                (cookie, false)
            }
            Cookies::Known(_) | Cookies::Withheld => (None, true),
        };
        let request = Request {
            predictor: self,
            reference,
            relation: chain.relation(target),
            referer: self.referer(reference, chain),
            cookie,
            origin: self.origin(reference, chain),
            storage_access: self
                .tells_storage_access(reference, chain)
                .then(|| templates.storage_access()),
        };
        let kind = RequestKind::new(target, reference.destination, request.origin.is_some());
        let mut fields = HeaderMap::new();
        match templates.of(kind) {
            Some(template) => request.write_learned(&template.0, &mut fields),
            None => request.write_default(&mut fields),
        }
        self.add_reload(&mut fields);
        Prediction { fields, is_withheld }
    }

    /// Returns the `Referer` value. The policy is that of the element, the style sheet or the document; the
    /// policy of a redirect replaces it.
    fn referer(&self, reference: &Reference, chain: &RequestChain) -> Option<String> {
        let initiator = &chain.initiator;
        let sheet = chain.sheet.as_ref();
        let policy = chain
            .redirect_policy
            .or(reference.referrer_policy)
            .or_else(|| sheet.and_then(|(_, policy)| *policy))
            .or_else(|| initiator.referrer_policy());
        let referrer = match sheet {
            Some((url, _)) => url,
            None => initiator.referrer()?,
        };
        // A redirect removes the parts that its target may not see; a later redirect does not restore them.
        let mut urls = chain.redirects.iter().chain([&reference.url]);
        let first = referer(policy.unwrap_or_default(), referrer, urls.next()?)?;
        urls.try_fold(first, |told, url| {
            referer(policy.unwrap_or_default(), &Url::parse(&told).ok()?, url)
        })
    }

    /// Returns true if the request has `Sec-Fetch-Storage-Access` (Storage Access Headers): cross-site
    /// requests with credentials state whether cookies may be included.
    fn tells_storage_access(&self, reference: &Reference, chain: &RequestChain) -> bool {
        let target = &reference.url;
        let with_credentials = matches!(
            reference.cross_origin,
            CrossOrigin::None | CrossOrigin::Credentials
        );
        with_credentials
            && !reference.destination.is_document()
            && is_trustworthy(target)
            && chain.relation(target) == Relation::CrossSite
            && browser::chromium_version(&self.request).is_some_and(|version| version >= STORAGE_ACCESS)
    }

    /// Returns the `Origin` value: cross-origin requests in CORS mode have one; in Chromium also same-origin
    /// ones of markup or fonts. Referrer policies do not hide it (Fetch standard 3.2).
    fn origin(&self, reference: &Reference, chain: &RequestChain) -> Option<HeaderValue> {
        let own = chain.is_same_origin(&reference.url);
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
        HeaderValue::from_str(&chain.origin(&reference.url)).ok()
    }

    /// A reload that bypasses caches extends to the page's objects; in current browsers a plain reload does
    /// not.
    fn add_reload(&self, fields: &mut HeaderMap) {
        if reload(&self.request) == Reload::Bypass {
            for name in [header::PRAGMA, header::CACHE_CONTROL] {
                copy(&self.request, &name, fields);
            }
        }
    }
}

/// Returns true if the credentials mode (`omit`, `same-origin` or `include`; Fetch standard) permits cookies.
pub fn sends_cookies(mode: CrossOrigin, target: &Url, chain: &RequestChain) -> bool {
    match mode {
        CrossOrigin::None | CrossOrigin::Credentials => true,
        CrossOrigin::Anonymous => chain.is_same_origin(target),
        CrossOrigin::Omitted => false,
    }
}

/// A request under construction.
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
    /// Writes the learned fields in the learned order.
    fn write_learned(&self, template: &[(HeaderName, Option<HeaderValue>)], fields: &mut HeaderMap) {
        for (name, value) in template {
            match value {
                Some(value) => {
                    fields.insert(name.clone(), value.clone());
                }
                None => self.write(name, fields),
            }
        }
        // Fields that the learned request lacked.
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

    /// Writes all fields in the engine's order.
    fn write_default(&self, fields: &mut HeaderMap) {
        let order = match self.predictor.browser {
            Browser::Firefox => &FIREFOX[..],
            Browser::Chromium | Browser::Safari | Browser::Other => &CHROMIUM[..],
        };
        for name in order {
            self.write(name, fields);
        }
        // Client hints that the page's origin requested; only requests to this origin carry them.
        if self.relation == Relation::SameOrigin {
            for name in self.predictor.request.keys().filter(|name| is_hint(name)) {
                if !fields.contains_key(name) {
                    copy(&self.predictor.request, name, fields);
                }
            }
        }
    }

    /// Adds the field `name`, if this request has it.
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

    /// Returns true if the browser sends Fetch Metadata to trustworthy targets; all engines do since 2023.
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

/// Returns true for fields that origins request with `Accept-CH`.
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

/// Order of Chromium 156, also used for unknown engines.
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
