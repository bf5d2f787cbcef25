//! An origin with the objects of a page, which tests change and hold back.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use longhaul_types::ContentHash;
use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout};

use crate::origin::{full, serve};

/// A resource of a site.
#[derive(Clone, Default)]
pub(crate) struct Resource {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// The response waits for this notification.
    pub(crate) gate: Option<Gate>,
}

pub(crate) fn resource(media: &str, body: impl Into<Vec<u8>>) -> Resource {
    Resource {
        status: 200,
        fields: vec![("content-type", media.to_owned())],
        body: body.into(),
        gate: None,
    }
}

impl Resource {
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.fields.push((name, value.to_owned()));
        self
    }

    pub(crate) fn fresh(self) -> Self {
        self.with("cache-control", "max-age=3600")
    }
}

pub(crate) fn redirect(status: u16, location: &str) -> Resource {
    Resource {
        status,
        fields: vec![("location", location.to_owned())],
        ..Resource::default()
    }
}

/// Requests by path and query.
/// Longer than any request of a test takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) type Seen = Arc<Mutex<Vec<(String, HeaderMap)>>>;

/// Holds responses back until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(watch::Sender<bool>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    async fn passed(&self) {
        let mut state = self.0.subscribe();
        let _open = state.wait_for(|is_open| *is_open).await;
    }
}

pub(crate) struct Site {
    pub(crate) port: u16,
    pub(crate) seen: Seen,
    /// Number of requests.
    pub(crate) arrived: watch::Sender<usize>,
    pub(crate) resources: Arc<Mutex<BTreeMap<String, Resource>>>,
}

impl Site {
    pub(crate) async fn start(resources: impl IntoIterator<Item = (&'static str, Resource)>) -> Self {
        let resources: BTreeMap<String, Resource> = resources
            .into_iter()
            .map(|(path, resource)| (path.to_owned(), resource))
            .collect();
        let resources = Arc::new(Mutex::new(resources));
        let seen = Seen::default();
        let (log, served) = (Arc::clone(&seen), Arc::clone(&resources));
        let arrived = watch::Sender::new(0);
        let arrival = arrived.clone();
        let port = serve(move |request: Request<Incoming>| {
            let path = request.uri().path_and_query().unwrap().as_str().to_owned();
            log.lock().push((path.clone(), request.headers().clone()));
            arrival.send_modify(|count| *count += 1);
            let found = served.lock().get(&path).cloned();
            async move {
                let found = found.unwrap_or_else(|| Resource {
                    status: 404,
                    ..resource("text/plain", "nothing here")
                });
                if let Some(gate) = &found.gate {
                    gate.passed().await;
                }
                let mut response = Response::builder().status(found.status);
                for (name, value) in &found.fields {
                    response = response.header(*name, value.as_str());
                }
                response.body(full(found.body)).unwrap()
            }
        })
        .await;
        Self {
            port,
            seen,
            arrived,
            resources,
        }
    }

    pub(crate) fn set(&self, path: &str, resource: Resource) {
        self.resources.lock().insert(path.to_owned(), resource);
    }

    pub(crate) fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}.test:{}{path}", self.port)
    }

    pub(crate) fn requests(&self, path: &str) -> Vec<HeaderMap> {
        let seen = self.seen.lock();
        seen.iter()
            .filter(|(found, _)| found == path)
            .map(|(_, headers)| headers.clone())
            .collect()
    }

    /// Waits until this path was requested `count` times.
    pub(crate) async fn requested(&self, path: &str, count: usize) {
        let mut arrived = self.arrived.subscribe();
        let waiting = arrived.wait_for(|_| self.requests(path).len() >= count);
        let reached = timeout(LIMIT, waiting).await;
        assert!(reached.is_ok(), "{path} was not requested {count} times");
    }

    pub(crate) fn clear(&self) {
        self.seen.lock().clear();
    }
}

pub(crate) fn hash16(body: &[u8]) -> [u8; 16] {
    ContentHash::of(body).as_bytes()[..16].try_into().unwrap()
}
