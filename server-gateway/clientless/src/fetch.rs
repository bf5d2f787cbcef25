//! Answers one request from the cache or the origin.
use std::{sync::Arc, time::Instant};

use http::{HeaderMap, Method, StatusCode, header};
use longhaul_gateway_core::{
    device_streams::StreamSlot,
    failure::Failure,
    logins::Logins,
    origin_request::{Arrived, RequestLine, prepare},
    response_class::class_of,
};
use longhaul_http::{
    coding::takes_decoded, credentials::is_connection_bound, hop_by_hop, policy::Reload,
    request_context::Navigation, target::Target,
};
use longhaul_page::MediaType;
use longhaul_session::{BoundConnectionId, FailureReason, FetchKind};
use longhaul_types::PublicKey;
use longhaul_webcache::{CacheRequest, Content, GatewayResponse, OriginRequest, Purpose};
use parking_lot::Mutex;
use tokio::time::timeout;
use tracing::debug;
use url::Url;

use super::{
    Clientless,
    access::{Admitted, Peer},
    answer::{Answer, AnswerBody},
    client::{BrowserState, ClientlessClient, limits, owner, share, take_level},
    encoding::{AppliedCoding, Encoding},
    prefetch::{BodyTap, Page, PageTap},
    prefetched::PrefetchedObject,
    request_body::RequestBody,
};

/// Number of Longhaul proxies before the gateway in `Via`: there is no agent.
const PROXIES_BEFORE: usize = 0;
/// A connection's number among its own: its login belongs to it alone.
const BOUND: u64 = 1;

/// Requests of a client that wait for a stream slot: each keeps its head in memory.
const MAX_WAITING: usize = 1024;

/// A request of an admitted client.
pub(super) struct ProxyRequest {
    pub(super) method: Method,
    pub(super) target: Target,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<RequestBody>,
}

/// State of one connection that its requests share.
pub(super) struct ConnectionState {
    pub(super) shared: Arc<Clientless>,
    pub(super) peer: Peer,
    pub(super) logins: Logins,
    /// The browser of the last request, of which the connection keeps what is known.
    pub(super) browser: Mutex<Option<Arc<BrowserState>>>,
}

impl ConnectionState {
    /// State for the next request, of `client`: one client of a connection never uses the logins of another.
    pub(super) fn next(self: &Arc<Self>, last: Option<PublicKey>, client: PublicKey) -> Arc<Self> {
        if last.is_none_or(|last| last == client) {
            return Arc::clone(self);
        }
        Arc::new(Self {
            shared: Arc::clone(&self.shared),
            peer: self.peer,
            logins: Logins::default(),
            browser: Mutex::default(),
        })
    }

    /// The client of a request; takes the client's own fields out of the request.
    pub(super) fn client(&self, admitted: &Admitted, headers: &mut HeaderMap) -> ClientlessClient {
        let owner = owner(admitted, self.peer.address);
        let limits = limits(admitted, self.peer.address);
        let share = share(admitted, self.peer.address, &self.shared.shares);
        let of_client = match admitted {
            Admitted::Named(_, level) => *level,
            Admitted::Unnamed => None,
        };
        let level = take_level(headers)
            .or(of_client)
            .unwrap_or(self.shared.config.level);
        // What remains is the browser's request to the origin.
        hop_by_hop::strip_request(headers);
        for name in [header::HOST, header::TE] {
            headers.remove(name);
        }
        let browser = self.shared.browsers.of(&owner, headers);
        if *admitted == Admitted::Unnamed {
            self.shared.day_bytes.locate(limits, self.peer.address);
        }
        *self.browser.lock() = Some(Arc::clone(&browser));
        ClientlessClient {
            owner,
            limits,
            share,
            is_unnamed: *admitted == Admitted::Unnamed,
            level,
            link: self.shared.config.link.map(|link| link.down),
            browser,
            pages: self.shared.browsers.pages(share),
        }
    }

    /// Waits for a stream slot of the client.
    pub(super) async fn slot(&self, client: &ClientlessClient) -> Result<StreamSlot, Failure> {
        if let Some(failure) = self.shared.used_up(client.limits) {
            return Err(failure);
        }
        let gateway = &self.shared.gateway;
        let slots = gateway.device_streams(client.share);
        let limit = gateway.rules.load().queue_timeout;
        let slot = timeout(limit, slots.acquire_behind(MAX_WAITING))
            .await
            .ok()
            .flatten();
        slot.ok_or_else(|| {
            let detail =
                "this client has reached its limit of concurrent requests, and none of them ended in time";
            Failure::new(FailureReason::Overloaded, detail)
        })
    }
}

/// Answers a request.
pub(super) async fn answer(
    connection: Arc<ConnectionState>,
    client: ClientlessClient,
    request: ProxyRequest,
) -> Answer {
    let metrics = &connection.shared.gateway.metrics;
    let _open = metrics.fetch();
    connection.shared.gateway.cpu_pool.touch();
    let late = request.body.as_ref().map(RequestBody::late);
    match respond(&connection, client, request).await {
        Ok(answer) => answer,
        Err(failure) => {
            debug!(reason = ?failure.reason, "a request has no response");
            metrics.failure(failure.reason);
            if late.is_some_and(|late| late.is_late()) {
                return Answer::of_late_body();
            }
            Answer::of_failure(&failure)
        }
    }
}

async fn respond(
    connection: &Arc<ConnectionState>,
    client: ClientlessClient,
    request: ProxyRequest,
) -> Result<Answer, Failure> {
    let slot = connection.slot(&client).await?;
    let gateway = &connection.shared.gateway;
    let url = request.target.url();
    let line = RequestLine {
        method: request.method,
        url: &url,
        has_body: request.body.is_some(),
        arrived: Arrived::Confirmed,
        proxies_before: PROXIES_BEFORE,
    };
    let prepared = prepare(line, request.headers)?;
    let accepts = takes_decoded(&prepared.browser).then(|| accepted_codings(&prepared.browser));
    let identity = client.identity(
        &gateway.credentials,
        &prepared.parts.method,
        &url,
        &prepared.browser,
    );
    let is_bound = is_connection_bound(&prepared.browser) || connection.logins.is_used();
    let login = connection.logins.client_for(
        BoundConnectionId::new(BOUND).filter(|_| is_bound),
        &prepared.browser,
        &gateway.origin,
        Instant::now(),
    );
    let outgoing = OriginRequest {
        parts: prepared.parts,
        browser: prepared.browser,
        identity,
        login,
    };
    let is_page = outgoing.identity.context().navigation() == Navigation::TopLevel;
    let kind = if is_page {
        FetchKind::Page
    } else {
        FetchKind::Object
    };
    let is_get = outgoing.parts.method == Method::GET && request.body.is_none();
    let page = page_of(connection, &client, &outgoing, &url);
    let response = match request.body {
        Some(body) => gateway.store.upload(outgoing, body).await?,
        None => fetch(connection, &client, outgoing).await?,
    };
    debug!(status = %response.status, cache = ?response.response_context.cache_status, "a request was answered");
    let tap = is_get.then(|| BodyTap {
        page: page.and_then(|page| tap(page, &response)),
        object: PrefetchedObject::new(&connection.shared, &client, &url),
        seen: 0,
    });
    let GatewayResponse {
        status,
        mut headers,
        content,
        response_context,
    } = response;
    let (body, coding) = match content {
        Content::None => (AnswerBody::None, None),
        Content::Body(reader) => {
            let encoding = Encoding {
                link: client.link,
                effort: gateway.rules.load().effort,
                audience: response_context.audience,
            };
            let coding =
                accepts.and_then(|accepts| encoding.apply(&accepts, status, &mut headers, reader.length()));
            let coding = coding.map(|coding| AppliedCoding {
                coding,
                share: client.share,
            });
            (AnswerBody::Stream(reader), coding)
        }
    };
    let length = match &body {
        AnswerBody::Stream(reader) => reader.length(),
        AnswerBody::None | AnswerBody::Whole(_) => None,
    };
    Ok(Answer {
        class: class_of(kind, length, &headers),
        status,
        headers,
        body,
        coding,
        closes: false,
        tap,
        _slot: Some(slot),
    })
}

/// The fields of a request that decide the content coding of its response.
fn accepted_codings(browser: &HeaderMap) -> HeaderMap {
    let values = browser.get_all(header::ACCEPT_ENCODING).iter();
    values
        .map(|value| (header::ACCEPT_ENCODING, value.clone()))
        .collect()
}

async fn fetch(
    connection: &ConnectionState,
    client: &ClientlessClient,
    request: OriginRequest,
) -> Result<GatewayResponse, Failure> {
    let gateway = &connection.shared.gateway;
    let lookup = CacheRequest {
        identity: request.identity,
        parts: request.parts,
        browser: request.browser,
        reload: Reload::None,
        purpose: Purpose::Requested,
    };
    match &request.login {
        None => gateway.fetch(client, lookup).await,
        Some(login) => Ok(gateway.store.fetch_bypassing_cache(lookup, login).await?),
    }
}

/// The page that a request asks for, if its objects may be fetched ahead; also learns from the request.
fn page_of(
    connection: &Arc<ConnectionState>,
    client: &ClientlessClient,
    request: &OriginRequest,
    url: &str,
) -> Option<Page> {
    let url = Url::parse(url).ok()?;
    if request.login.is_some() || request.parts.method != Method::GET {
        return None;
    }
    let destination = longhaul_page::predict::destination_of(&url, &request.browser);
    // The objects of a frame's document are left to the browser: which of them it may fetch depends on documents that
    // this proxy does not know.
    let is_page = request.identity.context().navigation() == Navigation::TopLevel;
    {
        let mut observed = client.browser.observed.lock();
        observed.cookie_paths.observe(&url, &request.browser);
        if !is_page {
            observed.templates.observe(&url, destination, &request.browser);
        }
    }
    is_page.then(|| Page {
        shared: Arc::clone(&connection.shared),
        client: client.clone(),
        url,
        browser: request.browser.clone(),
        via: request.parts.headers.get(header::VIA).cloned(),
        in_partition: request.identity.partition().is_some(),
    })
}

fn tap(page: Page, response: &GatewayResponse) -> Option<PageTap> {
    let media = MediaType::of_response(&response.headers);
    let is_document = response.status == StatusCode::OK && media.is_html();
    let has_body = matches!(response.content, Content::Body(_));
    (is_document && has_body)
        .then(|| page.load(&response.headers, media.charset.as_deref()))
        .flatten()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::tests::Proxy;
    use longhaul_gateway_core::{admission::clients::ClientIdentity, config::settings};

    #[tokio::test]
    async fn the_clients_without_a_name_of_one_customer_share_the_bytes_of_a_day() {
        const DAY: usize = 1024 * 1024;
        let proxy = Proxy::new(|flags| flags.with(&settings::CLIENTLESS_DAY_SIZE, "1MiB"));
        let limits = |number: u16, admitted: &Admitted| {
            let address = IpAddr::from([0x2001, 0xdb8, 1, number, 0, 0, 0, 1]);
            let state = proxy.connection(address);
            state.client(admitted, &mut HeaderMap::new()).limits
        };
        // A /56 has the bytes of 16 clients.
        for number in 0..16 {
            let client = limits(number, &Admitted::Unnamed);
            assert!(proxy.shared.count_down(client, DAY).is_ok(), "{number}");
        }
        assert!(
            proxy
                .shared
                .count_down(limits(16, &Admitted::Unnamed), 1)
                .is_err()
        );
        let ann = Admitted::Named(ClientIdentity::from_bytes([1; 32]), None);
        assert!(proxy.shared.count_down(limits(17, &ann), DAY).is_ok());
    }
}
