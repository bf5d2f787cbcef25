//! The requests of a page, from the browser's network events.
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use longhaul_loader::{ObjectClass, ObjectLoad, Outcome, PageLoad};
use serde_json::Value;
use url::Url;

use crate::{
    outcome::{Ended, Failure},
    response::{Response, status, whole},
};

/// Maximum number of requests of one page: the largest real ones make some hundreds, and a page that polls
/// must not fill the memory.
const MAX_REQUESTS: usize = 20_000;

/// One request, or one hop of a redirected one. Times are by the browser's monotonic clock, in seconds.
#[derive(Debug)]
struct Entry {
    id: String,
    /// Number of preceding redirects.
    hop: usize,
    url: Url,
    kind: String,
    begun: f64,
    response: Option<Response>,
    /// True if it came from the renderer's memory.
    from_memory: bool,
    /// Bytes of the body without content codings.
    body: u64,
    /// Bytes of the body as transferred, as far as the browser reported them during the transfer.
    travelled: f64,
    /// Total number of received bytes, as reported at the end.
    encoded: Option<f64>,
    ended: Option<f64>,
    failure: Option<Failure>,
    hash: Option<[u8; 32]>,
}

/// End of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// With the load event, at this time of the browser's clock.
    Load(f64),
    /// Without a load event, after this time.
    Limit(Duration),
}

/// All requests of a tab in the order of sending.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    entries: Vec<Entry>,
    /// The newest entry of each request id of the browser.
    newest: BTreeMap<String, usize>,
    /// Statuses on the wire, hop by hop.
    wire: BTreeMap<String, Vec<u16>>,
}

impl Requests {
    /// Handles an event; events that do not concern requests are ignored.
    pub(crate) fn note(&mut self, method: &str, params: &Value) {
        let Some(id) = params["requestId"].as_str() else {
            return;
        };
        match method {
            "Network.requestWillBeSent" => self.begin(id, params),
            "Network.responseReceivedExtraInfo" => {
                if let Some(status) = status(&params["statusCode"])
                    && self.wire.len() < MAX_REQUESTS
                {
                    self.wire.entry(id.to_owned()).or_default().push(status);
                }
            }
            _ => {
                if let Some(entry) = self.newest.get(id).and_then(|at| self.entries.get_mut(*at)) {
                    entry.note(method, params);
                }
            }
        }
    }

    /// Returns the start of the navigation: the first request is the document's.
    pub(crate) fn origin(&self) -> Option<f64> {
        self.entries.first().map(|entry| entry.begun)
    }

    /// Number of requests that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.entries.iter().filter(|entry| entry.ended.is_none()).count()
    }

    /// Returns the requests with a complete body, as (position, the browser's id, length without content
    /// codings).
    pub(crate) fn bodies(&self) -> Vec<(usize, String, u64)> {
        let entries = self.entries.iter().enumerate();
        entries
            .filter(|(_, entry)| entry.ended.is_some() && entry.failure.is_none())
            .filter(|(at, entry)| self.newest.get(&entry.id) == Some(at))
            .map(|(at, entry)| (at, entry.id.clone(), entry.body))
            .collect()
    }

    /// Records the hash of a body.
    pub(crate) fn hashed(&mut self, at: usize, hash: [u8; 32]) {
        if let Some(entry) = self.entries.get_mut(at) {
            entry.hash = Some(hash);
        }
    }

    fn begin(&mut self, id: &str, params: &Value) {
        let begun = params["timestamp"].as_f64().unwrap_or_default();
        let mut hop = 0;
        if let Some(entry) = self.newest.get(id).and_then(|at| self.entries.get_mut(*at)) {
            // The request continues at another URL: this part of it is answered.
            let redirect = Response::parse(&params["redirectResponse"]);
            entry.encoded = Some(redirect.head_bytes);
            entry.response = Some(redirect);
            entry.ended = Some(begun);
            hop = entry.hop + 1;
        }
        let url = params["request"]["url"].as_str().unwrap_or_default();
        let Some(url) = Url::parse(url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
        else {
            return;
        };
        if self.entries.len() == MAX_REQUESTS {
            return;
        }
        self.newest.insert(id.to_owned(), self.entries.len());
        self.entries.push(Entry {
            id: id.to_owned(),
            hop,
            url,
            kind: params["type"].as_str().unwrap_or_default().to_owned(),
            begun,
            response: None,
            from_memory: false,
            body: 0,
            travelled: 0.0,
            encoded: None,
            ended: None,
            failure: None,
            hash: None,
        });
    }

    /// Returns the load of `url`: the requests until `end`, with their state at that time.
    pub(crate) fn page(&self, url: &Url, end: End, absent: &BTreeSet<String>) -> PageLoad {
        let origin = self.origin().unwrap_or_default();
        let (time, until) = match end {
            End::Load(at) => (since(origin, at), at),
            End::Limit(limit) => (limit, f64::INFINITY),
        };
        let mut connections = BTreeMap::new();
        let asked = self.entries.iter().filter(|entry| entry.begun <= until);
        let objects: Vec<ObjectLoad> = asked
            .map(|entry| {
                let wire = self.wire.get(&entry.id).and_then(|hops| hops.get(entry.hop));
                entry.object(origin, until, wire.copied(), absent, &mut connections)
            })
            .collect();
        PageLoad {
            url: url.clone(),
            time,
            first_paint: None,
            largest_paint: None,
            objects,
            connections: u64::try_from(connections.len()).unwrap_or(u64::MAX),
            dns_lookups: None,
            pipelining_factor: None,
        }
    }
}

impl Entry {
    fn note(&mut self, method: &str, params: &Value) {
        let at = params["timestamp"].as_f64();
        match method {
            "Network.requestServedFromCache" => self.from_memory = true,
            "Network.responseReceived" => {
                self.response = Some(Response::parse(&params["response"]));
                if let Some(kind) = params["type"].as_str() {
                    kind.clone_into(&mut self.kind);
                }
            }
            "Network.dataReceived" => {
                self.body += params["dataLength"].as_f64().map_or(0, whole);
                self.travelled += params["encodedDataLength"].as_f64().unwrap_or_default();
            }
            "Network.loadingFinished" => {
                self.encoded = params["encodedDataLength"].as_f64();
                self.ended = at;
            }
            "Network.loadingFailed" => {
                self.ended = at;
                self.failure = Some(Failure {
                    error: params["errorText"].as_str().unwrap_or("unknown").to_owned(),
                    blocked: params["blockedReason"].as_str().map(str::to_owned),
                    canceled: params["canceled"].as_bool().unwrap_or(false),
                });
            }
            _ => {}
        }
    }

    /// Returns the body's length as transferred. The browser reports it during the transfer, but not for
    /// documents and error pages. At the end it reports the total length of head and body, for error pages
    /// only that of the body.
    fn coded(&self) -> Option<u64> {
        if self.travelled > 0.0 {
            return Some(whole(self.travelled));
        }
        let response = self.response.as_ref()?;
        let with_head = response.status < 400 || self.kind == "Document";
        let head = if with_head { response.head_bytes } else { 0.0 };
        self.encoded.map(|encoded| whole(encoded - head))
    }

    fn object(
        &self,
        origin: f64,
        until: f64,
        wire: Option<u16>,
        absent: &BTreeSet<String>,
        connections: &mut BTreeMap<u64, u64>,
    ) -> ObjectLoad {
        let response = self.response.as_ref();
        let cached = self.from_memory || response.is_some_and(|response| response.cached);
        let travelled = response.filter(|response| !cached && response.connection != 0);
        let connection = travelled.map(|response| {
            let next = u64::try_from(connections.len()).unwrap_or(u64::MAX);
            *connections.entry(response.connection).or_insert(next)
        });
        let ended = self.ended.filter(|ended| *ended <= until);
        let outcome = if ended.is_some() {
            let facts = Ended {
                host: self.url.host_str().unwrap_or_default(),
                response,
                status: wire.filter(|_| !cached),
                failure: self.failure.as_ref(),
            };
            facts.outcome(absent)
        } else {
            Outcome::Unfinished
        };
        let at = |time: Option<f64>| time.map(|time| since(origin, time));
        ObjectLoad {
            url: self.url.clone(),
            class: class(&self.kind),
            outcome,
            status: wire
                .filter(|_| !cached)
                .or_else(|| response.map(|response| response.status)),
            body_bytes: self.body,
            coded_bytes: if cached { Some(0) } else { self.coded() },
            body_hash: self.hash,
            discovered: since(origin, self.begun),
            sent: at(travelled.and_then(|response| response.sent)),
            first_byte: at(travelled.and_then(|response| response.first_byte)),
            ended: at(ended),
            connection,
        }
    }
}

fn since(origin: f64, at: f64) -> Duration {
    Duration::try_from_secs_f64((at - origin).max(0.0)).unwrap_or_default()
}

fn class(kind: &str) -> ObjectClass {
    match kind {
        "Document" => ObjectClass::Document,
        "Stylesheet" => ObjectClass::Style,
        "Script" => ObjectClass::Script,
        "Image" => ObjectClass::Image,
        "Font" => ObjectClass::Font,
        _ => ObjectClass::Other,
    }
}
