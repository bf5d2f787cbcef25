//! Origins of the emulated Internet: their contents, names and servers.
use std::{collections::BTreeSet, net::Ipv4Addr, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE, request};
use longhaul_hosting::{
    Announcement, CloseAfter, Compression, Content, Hosting, HostingOptions, Http2, KeepAlive, Listen,
    Scheme, TestAuthority,
};
use longhaul_pages::Page;
use longhaul_world::World;
use parking_lot::Mutex;

use super::NetworkError;
use crate::{
    job::{LoadJob, OriginBehaviour},
    system::System,
    worker::{bulk_download, device_requests, next_page},
};

/// The pages' hosts in their current edition; a later edition may replace an earlier one.
#[derive(Debug)]
pub(in crate::worker) struct Site {
    /// Body of the concurrent download.
    pub(super) bulk: Bytes,
    pub(super) page: Mutex<Page>,
    /// Hosts of pages that are shown later.
    pub(super) others: BTreeSet<String>,
}

impl Site {
    pub(in crate::worker) fn page(&self) -> Page {
        self.page.lock().clone()
    }

    /// Returns the hosts to which the page refers and that do not exist here.
    pub(in crate::worker) fn blocked_hosts(&self) -> BTreeSet<String> {
        self.page().blocked_hosts().iter().cloned().collect()
    }

    /// Replaces the current edition.
    pub(in crate::worker) fn show(&self, page: Page) {
        page.prepare();
        *self.page.lock() = page;
    }
}

impl Content for Site {
    fn answer(&self, request: &request::Parts, _: Scheme) -> Response<Bytes> {
        match request.uri.host() {
            Some(bulk_download::HOST) => return Response::new(self.bulk.clone()),
            Some(next_page::HOST) => return elsewhere(),
            _ => {}
        }
        if request.uri.path().starts_with(device_requests::PATH) {
            return Response::new(Bytes::from_static(device_requests::BODY));
        }
        let url = url::Url::parse(&request.uri.to_string()).ok();
        let answer = url.and_then(|url| self.page().answer(&request.method, &url));
        let Some(answer) = answer else {
            let mut missing = Response::new(Bytes::new());
            *missing.status_mut() = StatusCode::NOT_FOUND;
            return missing;
        };
        let mut response = Response::new(answer.body);
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        response
    }

    fn hosts(&self) -> Vec<String> {
        let mut hosts = names(&self.page());
        hosts.extend(self.others.iter().cloned());
        hosts.extend([bulk_download::HOST, next_page::HOST].map(str::to_owned));
        hosts.into_iter().collect()
    }
}

/// Returns the names of the hosts of a page and of its next edition that exist.
pub(super) fn names(page: &Page) -> BTreeSet<String> {
    let mut hosts = page.hosts();
    hosts.extend(page.next_edition().map(|next| next.hosts()).unwrap_or_default());
    let mut names: BTreeSet<_> = hosts.iter().map(|host| name_of(host).to_owned()).collect();
    let blocked = page.blocked_hosts();
    names.retain(|name| !blocked.contains(name));
    names
}

pub(super) fn elsewhere() -> Response<Bytes> {
    let mut page = Response::new(Bytes::from_static(next_page::PAGE));
    let html = HeaderValue::from_static("text/html");
    page.headers_mut().insert(CONTENT_TYPE, html);
    page
}

/// Returns a host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

pub(super) async fn host(
    world: &World,
    content: &Arc<Site>,
    authority: &Arc<TestAuthority>,
    job: &LoadJob,
) -> Result<Hosting, NetworkError> {
    let options = hosting_options(&job.origin, job.system);
    let content: Arc<dyn Content> = Arc::<Site>::clone(content);
    let authority = Arc::clone(authority);
    let all = Ipv4Addr::UNSPECIFIED;
    let listen = Listen {
        plain: vec![(all, 80).into()],
        tls: vec![(all, 443).into()],
    };
    let started = world
        .origins()
        .run(move || async move { Hosting::start(content, &listen, &authority, options).await });
    Ok(started.await?)
}

fn hosting_options(origin: &OriginBehaviour, system: System) -> HostingOptions {
    HostingOptions {
        think_time: origin.think_time,
        close_after: origin.close_after.map(|responses| CloseAfter {
            responses,
            announcement: Announcement::Silent,
        }),
        keep_alive: if origin.keep_alive {
            KeepAlive::On
        } else {
            KeepAlive::Off
        },
        keep_alive_timeout: origin.keep_alive_timeout,
        // HTTP/2 is a separate system; the others compare HTTP/1.1. A gateway may use any version.
        http2: if system.allows_http2() {
            Http2::On
        } else {
            Http2::Off
        },
        // For clients that accept it: the scripted browser requests identity, as the papers' browsers did.
        compression: Compression::Gzip,
        ..HostingOptions::default()
    }
}
