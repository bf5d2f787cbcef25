//! The page loader: loads a page with all objects that its markup and style sheets refer to.
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use longhaul_types::ByteCount;
use tokio::task::{JoinError, JoinSet};
use url::Url;

use super::{
    Client, Destination, MediaType, Reference, Request, Response, Viewport, content, cookies::CookieJar,
    discover_css, discover_html, headers::request_headers, ideal,
};

/// Maximum number of objects of a page. The largest real pages have several hundred.
const MAX_OBJECTS: usize = 2000;
/// Maximum number of consecutive redirects, half of the Fetch standard's 20: a page that needs more is
/// broken.
const MAX_REDIRECTS: usize = 10;
/// Maximum depth of nested frames.
const MAX_FRAME_DEPTH: usize = 3;

/// Prior knowledge of the response to a URL.
#[derive(Clone, Debug)]
pub enum Expectation {
    /// None: any status below 400 is correct.
    Unknown,
    /// The origin does not have the object.
    Missing,
    /// The origin's response.
    Answer {
        /// Status code.
        status: StatusCode,
        /// Body without content coding; `None` if the body is not known.
        body: Option<Bytes>,
    },
}

/// Source of the origin's responses, to check the received ones.
pub trait Oracle: Send + Sync {
    /// Returns the origin's response to a `GET` of `url`.
    fn expect(&self, url: &Url) -> Expectation;
}

/// One object of a page.
#[derive(Clone, Debug)]
pub struct Object {
    /// The URL that the page refers to.
    pub url: Url,
    /// Result of loading the object.
    pub outcome: Outcome,
}

/// Result of loading an object.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The object arrived completely and as the origin sent it (images may be transcoded).
    Loaded {
        /// Media type.
        media_type: String,
        /// Body without content coding.
        body: Bytes,
    },
    /// The origin does not have the object, as expected.
    Missing,
    /// The object did not arrive, or is incorrect.
    Failed(String),
}

/// A loaded page.
#[derive(Clone, Debug)]
pub struct PageLoad {
    /// Requested URL of the page.
    pub url: Url,
    /// The page itself and its subresources.
    pub objects: Vec<Object>,
    /// Time from the first request to the end of the last object.
    pub time: Duration,
}

impl PageLoad {
    /// Failed objects with the reasons.
    pub fn failures(&self) -> impl Iterator<Item = (&Url, &str)> {
        self.objects.iter().filter_map(|object| match &object.outcome {
            Outcome::Failed(reason) => Some((&object.url, reason.as_str())),
            Outcome::Loaded { .. } | Outcome::Missing => None,
        })
    }

    /// Number of objects that are known to be missing at the origin.
    pub fn missing(&self) -> usize {
        self.objects
            .iter()
            .filter(|object| matches!(object.outcome, Outcome::Missing))
            .count()
    }

    /// Size of the page in the ideal download: text as compressed by `gzip -9`, other bodies unchanged.
    pub fn ideal_size(&self) -> ByteCount {
        let sizes = self.objects.iter().map(|object| match &object.outcome {
            Outcome::Loaded { media_type, body } => ideal::transfer_size(media_type, body),
            Outcome::Missing | Outcome::Failed(_) => 0,
        });
        ByteCount::new(sizes.sum())
    }
}

/// Loads pages. Each load starts like a fresh browser, without cookies and cache; connections are reused.
#[derive(Clone)]
pub struct Loader {
    client: Arc<Client>,
    oracle: Option<Arc<dyn Oracle>>,
}

impl Loader {
    /// Returns a loader that fetches with `client`, and checks responses if there is an `oracle`.
    pub fn new(client: Client, oracle: Option<Arc<dyn Oracle>>) -> Self {
        Self {
            client: Arc::new(client),
            oracle,
        }
    }

    /// Bytes of bodies that its loads have received, as transferred.
    pub fn received(&self) -> ByteCount {
        self.client.received()
    }

    /// Loads the page at `url`; calls `progress` with the numbers of finished and known objects whenever an
    /// object is finished.
    ///
    /// The page itself counts as failed if the origin does not have it.
    pub async fn load(&self, url: &Url, progress: impl Fn(usize, usize)) -> PageLoad {
        let started = Instant::now();
        let mut page = url.clone();
        page.set_fragment(None);
        let visit = Visit {
            loader: self.clone(),
            page: Arc::new(page.clone()),
            cookies: Arc::default(),
        };
        let mut seen = BTreeSet::from([page.to_string()]);
        let mut tasks = JoinSet::new();
        let main = Reference::new(page, Destination::Document);
        tasks.spawn(visit.clone().object(main, None, 0));
        let mut objects = Vec::new();
        while let Some(done) = tasks.join_next().await {
            // A task that panicked counts as failed.
            let Visited {
                object,
                at,
                found,
                depth,
            } = done.unwrap_or_else(|error| Visited::failed(url, &error));
            for reference in found {
                if seen.len() < MAX_OBJECTS && seen.insert(reference.url.to_string()) {
                    tasks.spawn(visit.clone().object(reference, Some(at.clone()), depth));
                }
            }
            objects.push(object);
            progress(objects.len(), seen.len());
        }
        PageLoad {
            url: url.clone(),
            objects,
            time: started.elapsed(),
        }
    }
}

/// One load of one page.
#[derive(Clone)]
struct Visit {
    loader: Loader,
    page: Arc<Url>,
    cookies: Arc<CookieJar>,
}

/// An object and the references found in it.
struct Visited {
    object: Object,
    /// URL of the object after redirects.
    at: Url,
    found: Vec<Reference>,
    /// Number of frames around the referenced objects.
    depth: usize,
}

impl Visited {
    fn failed(url: &Url, error: &JoinError) -> Self {
        Self {
            object: Object {
                url: url.clone(),
                outcome: Outcome::Failed(error.to_string()),
            },
            at: url.clone(),
            found: Vec::new(),
            depth: 0,
        }
    }
}

impl Visit {
    async fn object(self, reference: Reference, referrer: Option<Url>, depth: usize) -> Visited {
        let Reference { url, destination, .. } = reference;
        let depth = depth + usize::from(destination == Destination::Frame);
        let mut visited = Visited {
            at: url.clone(),
            object: Object {
                url: url.clone(),
                outcome: Outcome::Missing,
            },
            found: Vec::new(),
            depth,
        };
        match self.fetch(&url, destination, referrer.as_ref()).await {
            Ok(Fetched::Missing) if destination == Destination::Document => {
                let reason = "the recording does not have the page itself";
                visited.object.outcome = Outcome::Failed(reason.to_owned());
            }
            Ok(Fetched::Missing) => {}
            Ok(Fetched::Whole { at, headers, body }) => {
                visited.found = discover(destination, &at, &headers, &body, depth);
                visited.at = at;
                let media_type = media_type(&headers);
                visited.object.outcome = Outcome::Loaded { media_type, body };
            }
            Err(reason) => visited.object.outcome = Outcome::Failed(reason),
        }
        visited
    }

    /// Fetches, follows redirects, and checks every response.
    async fn fetch(
        &self,
        url: &Url,
        destination: Destination,
        referrer: Option<&Url>,
    ) -> Result<Fetched, String> {
        let mut at = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let cookie = self.cookies.field(&at, &self.page);
            let request = Request {
                headers: request_headers(&at, destination, referrer, cookie.as_deref()),
                url: at.clone(),
            };
            let response = self.loader.client.get(&request).await;
            let expectation = self.expect(&at);
            let response = match response {
                Ok(response) => response,
                // A host of an object that is not recorded may be unreachable.
                Err(_) if matches!(expectation, Expectation::Missing) => return Ok(Fetched::Missing),
                Err(error) => return Err(error.to_string()),
            };
            if matches!(expectation, Expectation::Missing) && !response.status.is_success() {
                return Ok(Fetched::Missing);
            }
            self.cookies.store(&at, &response.headers);
            if let Some(target) = redirect_target(&at, &response) {
                check_status(&expectation, &response)?;
                at = target?;
                continue;
            }
            let encoding = joined(&response.headers, &header::CONTENT_ENCODING);
            let body = content::decode(&encoding, &response.body).map_err(|error| error.to_string())?;
            check_status(&expectation, &response)?;
            check_body(&expectation, &response.headers, &body)?;
            return Ok(Fetched::Whole {
                at,
                headers: Box::new(response.headers),
                body: Bytes::from(body),
            });
        }
        Err(format!("more than {MAX_REDIRECTS} redirects in a row"))
    }

    fn expect(&self, url: &Url) -> Expectation {
        let oracle = self.loader.oracle.as_ref();
        oracle.map_or(Expectation::Unknown, |oracle| oracle.expect(url))
    }
}

enum Fetched {
    Missing,
    Whole {
        at: Url,
        headers: Box<HeaderMap>,
        body: Bytes,
    },
}

fn check_status(expectation: &Expectation, response: &Response) -> Result<(), String> {
    let status = response.status;
    let detail = || {
        let named = response
            .headers
            .get("proxy-status")
            .and_then(|value| value.to_str().ok());
        named.map(|named| format!(" ({named})")).unwrap_or_default()
    };
    match expectation {
        Expectation::Answer { status: recorded, .. } if *recorded == status => Ok(()),
        Expectation::Answer { status: recorded, .. } => Err(format!(
            "status {status}{} where the origin sends {recorded}",
            detail()
        )),
        Expectation::Missing => Err(format!("status {status}, but the origin does not have it")),
        Expectation::Unknown if status.is_client_error() || status.is_server_error() => {
            Err(format!("status {status}{}", detail()))
        }
        Expectation::Unknown => Ok(()),
    }
}

/// All bodies except images must equal the origin's; an image may be transcoded.
fn check_body(expectation: &Expectation, headers: &HeaderMap, body: &[u8]) -> Result<(), String> {
    let Expectation::Answer {
        body: Some(recorded), ..
    } = expectation
    else {
        return Ok(());
    };
    let media_type = media_type(headers);
    let raster = media_type.starts_with("image/") && media_type != "image/svg+xml";
    if recorded == body || (raster && !body.is_empty()) {
        return Ok(());
    }
    Err(format!(
        "the body of {} bytes differs from the {} bytes that the origin sends",
        body.len(),
        recorded.len()
    ))
}

fn redirect_target(at: &Url, response: &Response) -> Option<Result<Url, String>> {
    if !matches!(response.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers.get(header::LOCATION)?;
    let location = String::from_utf8_lossy(location.as_bytes());
    let target = at
        .join(&location)
        .ok()
        .filter(|target| matches!(target.scheme(), "http" | "https"));
    Some(target.ok_or_else(|| "redirects to something that is no http or https URL".to_owned()))
}

fn discover(
    destination: Destination,
    at: &Url,
    headers: &HeaderMap,
    body: &[u8],
    depth: usize,
) -> Vec<Reference> {
    let MediaType { essence, charset } = MediaType::of_response(headers);
    match destination {
        Destination::Document | Destination::Frame => {
            let html = matches!(essence.as_str(), "text/html" | "application/xhtml+xml" | "");
            if html && depth <= MAX_FRAME_DEPTH {
                discover_html(body, at, charset.as_deref(), Viewport::default())
            } else {
                Vec::new()
            }
        }
        Destination::Style => discover_css(body, at, charset.as_deref(), Viewport::default()),
        Destination::InactiveStyle
        | Destination::Script
        | Destination::Image
        | Destination::Font
        | Destination::Icon
        | Destination::Manifest
        | Destination::Other => Vec::new(),
    }
}

fn media_type(headers: &HeaderMap) -> String {
    MediaType::of_response(headers).essence
}

fn joined(headers: &HeaderMap, name: &header::HeaderName) -> String {
    let values = headers
        .get_all(name)
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()));
    values.collect::<Vec<_>>().join(", ")
}
