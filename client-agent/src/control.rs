//! The control port: dashboard, `/status.json`, `/proxy.pac`. Loopback only.
//!
//! Any web page can make the browser send requests to this port, so each request is checked: its `Host` must
//! be this port's own address (a page that uses DNS rebinding sends its own name), requests of pages of other
//! origins are refused as far as browsers tell them (`Sec-Fetch-Site`, `Origin`), and requests with methods other
//! than GET and HEAD must come from this port's origin.
//!
//! Any user of this machine can connect to the port. The user who runs the agent sees the status; other
//! served users see only the proxy script. Changes, and access by other users, need the token of this run.
//! The port can change the image level, delete stored data, and carry out the orders of `orders`. What was loaded (the
//! journal) is shown only with the token.
mod admission;
mod enrolment;
mod form;
mod live;
mod measuring;
mod orders;
mod rules;
mod token;

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, service::service_fn};
use tokio::{net::TcpListener, sync::Mutex, time::Instant};

use longhaul_http::site::host_of_url;

pub use enrolment::take_invite;
pub use live::{Live, sample};
use longhaul_session::ImageLevel;
pub use token::{ControlToken, NoRandomness};

use admission::{AccessCheck, Caller, Rights};
use orders::Order;

use crate::{
    access::AccessRules,
    connection::{Accepted, ConnectionLimits, InUseBody, accept, serve_http},
    dashboard::{
        self, AUTHORITY, CANCEL_WAITING, ENROL, FORGET, FORGET_PAGE, HTTPS_BYPASS, HTTPS_FORGET, JOURNAL,
        LIVE, MEASURE, METERED, PAGE, PERMIT_LOGIN, PICTURES, REMOVE_AUTHORITY, RULES, RULES_ORIGINALS,
        RULES_PAUSE, RULES_REMOVE, RULES_RESUME, RULES_SET, RulesStatus, SavingsDays, Status, USE_INVITE,
        View,
    },
    forget::DeletionQueue,
    handles::Handles,
    history::History,
    listener::script,
    networks::Metered,
    proxy_body::ProxyBody,
    state_dir::StateDir,
    wall_clock,
};

const HTML: &str = "text/html; charset=utf-8";

/// Paths that change something, by POST and with the token.
const CHANGES: [&str; 16] = [
    PERMIT_LOGIN,
    ENROL,
    PICTURES,
    CANCEL_WAITING,
    FORGET,
    FORGET_PAGE,
    HTTPS_BYPASS,
    HTTPS_FORGET,
    MEASURE,
    REMOVE_AUTHORITY,
    USE_INVITE,
    RULES_SET,
    RULES_ORIGINALS,
    RULES_PAUSE,
    RULES_RESUME,
    RULES_REMOVE,
];

/// Paths that show which sites the user visits, with the token.
const PRIVATE: [&str; 4] = [LIVE, PAGE, JOURNAL, RULES];

/// Limits of connections: people and scripts of a few users.
const LIMITS: ConnectionLimits = ConnectionLimits {
    total: 256,
    per_owner: 64,
    refused: 16,
};

/// State of the control port.
#[derive(Debug)]
pub struct Control {
    /// The agent's components.
    pub handles: Handles,
    /// Deletion of data at both ends.
    pub deletions: DeletionQueue,
    /// The savings that last.
    pub history: History,
    /// What open dashboards get.
    pub live: Live,
    /// Address of the proxy's listener.
    pub proxy: SocketAddr,
    /// The control port's own address.
    pub address: SocketAddr,
    /// Start time of the agent.
    pub started: Instant,
    /// Access rules of the agent.
    pub access: AccessRules,
    /// Setting of metered links.
    pub metered: Metered,
    /// Held during a measurement of the link.
    pub measuring: Mutex<()>,
    /// Token for changes.
    pub token: ControlToken,
    /// Files of the agent.
    pub state_dir: StateDir,
    /// True if the agent started with the invite of the state directory.
    pub is_enrolled_by_file: bool,
}

/// Serves the control port forever.
pub async fn serve(listener: TcpListener, control: Arc<Control>) {
    accept(listener, LIMITS, |accepted| {
        serve_one(accepted, Arc::clone(&control))
    })
    .await;
}

async fn serve_one(accepted: Accepted, control: Arc<Control>) {
    let Accepted {
        stream,
        local,
        peer,
        permit,
    } = accepted;
    let Some(caller) = Caller::admitted(&control.access, local, peer, &permit).await else {
        return;
    };
    let service = service_fn(|request: Request<Incoming>| {
        let (control, in_use) = (Arc::clone(&control), Some(permit.begin()));
        async move {
            control.handles.storage.store.refresh_usage().await;
            let request = form::with_fields(request).await;
            let response = match control.requested_order(caller, &request) {
                Some(order) => told(&request, control.carry_out(order).await).await,
                None => control.answer(caller, &request).await,
            };
            Ok::<_, Infallible>(response.map(|body| InUseBody::new(body, in_use)))
        }
    });
    serve_http(stream, service).await;
}

impl Control {
    const fn access_check(&self) -> AccessCheck<'_> {
        AccessCheck {
            own: self.address,
            token: &self.token,
        }
    }

    async fn answer<B>(&self, caller: Caller, request: &Request<B>) -> Response<ProxyBody> {
        let response = match self.access_check().admit(caller, request) {
            Ok(_) if request.uri().path() == LIVE => self.live_stream().await,
            Ok(_) if request.uri().path() == METERED => {
                json(&serde_json::json!({ "metered": self.metered.is_paid().await }))
            }
            Ok(rights) => self.page(caller, rights, request),
            Err(refusal) => text(refusal.status(), refusal.to_string()),
        };
        with_safety_fields(response)
    }

    fn page<B>(&self, caller: Caller, rights: Rights, request: &Request<B>) -> Response<ProxyBody> {
        let (media_type, body) = match request.uri().path() {
            // Removes the token from the address, where other people, the history and bookmarks may expose
            // it.
            "/" if rights == Rights::Change && admission::in_query(request).is_some() => {
                return self.with_cookie(caller);
            }
            "/" => (HTML, self.dashboard(rights)),
            PAGE => match self.load_page(request) {
                Some(page) => (HTML, page),
                None => {
                    let words = "the journal has no page with this number: it is in memory and bounded";
                    return text(StatusCode::NOT_FOUND, words.to_owned());
                }
            },
            "/dashboard.css" => ("text/css; charset=utf-8", dashboard::STYLE.to_owned()),
            "/dashboard.js" => ("text/javascript; charset=utf-8", dashboard::SCRIPT.to_owned()),
            "/status.json" => return json(&self.status()),
            "/savings.json" => return json(&SavingsDays::of(self.history.summary())),
            RULES => return json(&self.rules_status()),
            JOURNAL => return json(&self.handles.journal.requests()),
            "/proxy.pac" => return script(self.proxy),
            AUTHORITY => match self.handles.acceleration.https.authority_pem() {
                Some(pem) => ("application/x-pem-file", pem),
                None => {
                    return text(
                        StatusCode::NOT_FOUND,
                        "this agent uses no certificate authority".to_owned(),
                    );
                }
            },
            PICTURES => return self.set_pictures(request),
            _ => {
                return text(
                    StatusCode::NOT_FOUND,
                    "the pages are /, /status.json, /savings.json, /journal.json, /metered.json and /proxy.pac; POST /forget and POST \
                     /forget?site=NAME delete data"
                        .to_owned(),
                );
            }
        };
        file(media_type, body)
    }

    /// Returns the dashboard.
    fn dashboard(&self, rights: Rights) -> String {
        let requests = self.handles.journal.requests();
        let loads = (rights == Rights::Change).then(|| dashboard::newest(&requests));
        let view = View {
            status: &self.status(),
            live: &self.live_figures(),
            kept: &self.history.summary(),
            loads: loads.as_deref(),
            failures: &dashboard::failures(&requests),
            rules: &self.rules_status(),
            now_ms: live::now_ms(),
        };
        dashboard::dashboard_page(&view).into_string()
    }

    /// Returns the page of one page load.
    fn load_page<B>(&self, request: &Request<B>) -> Option<String> {
        let number = request.uri().query()?.strip_prefix("number=")?.parse().ok()?;
        let load = dashboard::find(&self.handles.journal.requests(), number)?;
        let host = host_of_url(&load.page.url).unwrap_or_default();
        let decision = self.handles.acceleration.https.decide(host).to_string();
        let page = dashboard::load_page(&load, &self.rules_status(), &decision, live::now_ms() / 1000);
        Some(page.into_string())
    }

    /// Returns the user's rules for sites.
    fn rules_status(&self) -> RulesStatus {
        let https = &self.handles.acceleration.https;
        let rules = self.handles.upstream.site_rules.current();
        RulesStatus::of(&rules, wall_clock::now(), |name| {
            Some(https.decide(name).to_string())
        })
    }

    /// Redirects to the dashboard with a cookie that replaces the token.
    fn with_cookie(&self, caller: Caller) -> Response<ProxyBody> {
        let mut response = text(StatusCode::SEE_OTHER, "see /".to_owned());
        let headers = response.headers_mut();
        headers.insert(header::LOCATION, HeaderValue::from_static("/"));
        if let Ok(cookie) = HeaderValue::from_str(&self.access_check().set_cookie(caller.user)) {
            headers.insert(header::SET_COOKIE, cookie);
        }
        response
    }

    /// Returns the order of a request; `None` if it is none or lacks the rights.
    fn requested_order<B>(&self, caller: Caller, request: &Request<B>) -> Option<Order> {
        let order = Order::of(request)?;
        let rights = self.access_check().admit(caller, request).ok()?;
        (rights == Rights::Change).then_some(order)
    }

    /// Sets the image level of the query and redirects to the dashboard.
    fn set_pictures<B>(&self, request: &Request<B>) -> Response<ProxyBody> {
        let name = request
            .uri()
            .query()
            .and_then(|query| query.strip_prefix("level="));
        let level = ImageLevel::ALL
            .into_iter()
            .find(|level| Some(level.name()) == name);
        let (Some(level), &Method::POST) = (level, request.method()) else {
            let how = format!("POST {PICTURES}?level=original, high, medium, low or text");
            return text(StatusCode::BAD_REQUEST, how);
        };
        self.handles.acceleration.images.set_level(level);
        let mut response = text(StatusCode::SEE_OTHER, "the image level is changed".to_owned());
        response
            .headers_mut()
            .insert(header::LOCATION, HeaderValue::from_static("/"));
        response
    }

    /// Returns the status; the cache's usage is the one read last.
    pub fn status(&self) -> Status {
        Status::of(
            &self.handles,
            &self.history.summary(),
            self.proxy,
            self.address,
            self.started.elapsed(),
        )
    }
}

/// Adds the fields that keep a response from caches, frames and pages of other origins.
fn with_safety_fields(mut response: Response<ProxyBody>) -> Response<ProxyBody> {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(
        "cross-origin-resource-policy",
        HeaderValue::from_static("same-origin"),
    );
    // The address may contain the token.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Says in a page what an order did, if a browser's form gave it.
async fn told<B>(request: &Request<B>, response: Response<ProxyBody>) -> Response<ProxyBody> {
    let accept = request.headers().get(header::ACCEPT);
    if !accept.is_some_and(|accept| accept.as_bytes().starts_with(b"text/html")) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let words = body.collect().await.map(http_body_util::Collected::to_bytes);
    let words = words.unwrap_or_default();
    let page = dashboard::told_page(String::from_utf8_lossy(&words).trim_end());
    let mut response = file(HTML, page.into_string());
    *response.status_mut() = parts.status;
    response
}

fn json(value: &impl serde::Serialize) -> Response<ProxyBody> {
    match serde_json::to_string(value) {
        Ok(json) => file("application/json", json),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn file(media_type: &'static str, contents: String) -> Response<ProxyBody> {
    let mut response = Response::new(ProxyBody::full(Bytes::from(contents)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(dashboard::POLICY),
    );
    response
}

fn text(status: StatusCode, words: String) -> Response<ProxyBody> {
    let mut response = Response::new(ProxyBody::full(Bytes::from(words + "\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}
