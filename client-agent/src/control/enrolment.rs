//! The control port of an agent that has no invite: a page that says so and takes one. The token is needed as for every
//! other change; otherwise a web page could enrol the device with a gateway of its own.
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, service::service_fn};
use longhaul_types::Invite;
use tokio::{net::TcpListener, sync::watch};

use super::{
    HTML, LIMITS,
    admission::{self, AccessCheck, Caller, Rights},
    file,
    form::{self, Fields},
    text,
    token::ControlToken,
    with_safety_fields,
};
use crate::{
    access::AccessRules,
    connection::{Accepted, InUseBody, accept, serve_http},
    dashboard::{self, ENROL},
    proxy_body::ProxyBody,
    state_dir::StateDir,
};

struct Enrolment {
    own: SocketAddr,
    token: ControlToken,
    access: AccessRules,
    state_dir: StateDir,
    is_stored: AtomicBool,
    /// Becomes true when an invite is stored and the browser has the answer.
    done: watch::Sender<bool>,
}

/// Serves the page until the state directory has an invite.
pub async fn take_invite(listener: TcpListener, own: SocketAddr, token: ControlToken, state_dir: StateDir) {
    let enrolment = Arc::new(Enrolment {
        own,
        token,
        access: AccessRules::default(),
        state_dir,
        is_stored: AtomicBool::new(false),
        done: watch::Sender::new(false),
    });
    let mut done = enrolment.done.subscribe();
    let serving = accept(listener, LIMITS, |accepted| {
        serve_one(accepted, Arc::clone(&enrolment))
    });
    tokio::select! {
        () = serving => {}
        // The sender is part of this future.
        _ = done.wait_for(|is_done| *is_done) => {}
    }
}

async fn serve_one(accepted: Accepted, enrolment: Arc<Enrolment>) {
    let Accepted {
        stream,
        local,
        peer,
        permit,
    } = accepted;
    let Some(caller) = Caller::admitted(&enrolment.access, local, peer, &permit).await else {
        return;
    };
    let service = service_fn(|request: Request<Incoming>| {
        let (enrolment, in_use) = (Arc::clone(&enrolment), Some(permit.begin()));
        async move {
            let request = form::with_fields(request).await;
            let response = with_safety_fields(enrolment.answer(caller, &request));
            Ok::<_, Infallible>(response.map(|body| InUseBody::new(body, in_use)))
        }
    });
    serve_http(stream, service).await;
    if enrolment.is_stored.load(Relaxed) {
        enrolment.done.send_replace(true);
    }
}

impl Enrolment {
    fn answer(&self, caller: Caller, request: &Request<()>) -> Response<ProxyBody> {
        let check = AccessCheck {
            own: self.own,
            token: &self.token,
        };
        let rights = match check.admit(caller, request) {
            Ok(rights) => rights,
            Err(refusal) => return text(refusal.status(), refusal.to_string()),
        };
        let may_change = rights == Rights::Change;
        match (request.method(), request.uri().path()) {
            (&Method::POST, ENROL) => self.enrol(request.uri().query().unwrap_or_default()),
            (&Method::GET | &Method::HEAD, "/") if may_change && admission::in_query(request).is_some() => {
                let mut response = text(StatusCode::SEE_OTHER, "see /".to_owned());
                let headers = response.headers_mut();
                headers.insert(header::LOCATION, HeaderValue::from_static("/"));
                if let Ok(cookie) = HeaderValue::from_str(&check.set_cookie(caller.user)) {
                    headers.insert(header::SET_COOKIE, cookie);
                }
                response
            }
            (&Method::GET | &Method::HEAD, "/") => page(StatusCode::OK, may_change, None),
            (&Method::GET | &Method::HEAD, "/dashboard.css") => {
                file("text/css; charset=utf-8", dashboard::STYLE.to_owned())
            }
            _ => text(
                StatusCode::NOT_FOUND,
                "this agent has no invite: the only page is /".to_owned(),
            ),
        }
    }

    /// Stores the invite of a form.
    fn enrol(&self, query: &str) -> Response<ProxyBody> {
        let fields = Fields::of(query);
        let problem = |words: String| page(StatusCode::BAD_REQUEST, true, Some(&words));
        let invite: Invite = match fields.get("invite").unwrap_or_default().parse() {
            Ok(invite) => invite,
            Err(error) => return problem(error.to_string()),
        };
        if self.state_dir.has_invite() {
            return problem("this device has an invite by now: start the agent again".to_owned());
        }
        if let Err(error) = self.state_dir.keep_invite(&invite) {
            return problem(error.to_string());
        }
        self.is_stored.store(true, Relaxed);
        let words = "This device is enrolled, and the agent starts. `longhaul up` sets up the browsers; `longhaul-agent \
                     status` prints the address of the dashboard.";
        let mut response = file(HTML, dashboard::told_page(words).into_string());
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

fn page(status: StatusCode, may_change: bool, problem: Option<&str>) -> Response<ProxyBody> {
    let mut response = file(HTML, dashboard::enrolment_page(may_change, problem).into_string());
    *response.status_mut() = status;
    response
}
