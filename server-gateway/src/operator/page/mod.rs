//! The admin page: devices, quotas, refused handshakes and draining, for a browser on this machine. It needs no scripts.
//!
//! `views` are the pages, `forms` the orders of their forms. The same requests as on the admin socket are there for
//! programs with the token.
mod forms;
mod views;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use axum::{
    Router,
    body::Body,
    extract::{DefaultBodyLimit, Query, Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use maud::Markup;

use super::{
    access::{AdminAccess, Visitor},
    service::{self, Operator},
    status::status,
};

/// Content security policy: only the page's own style sheet and forms.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const STYLE: &str = include_str!("style.css");
/// Largest form.
const MAX_FORM: usize = 4 * 1024;

/// What the pages need.
#[derive(Clone)]
struct Pages {
    operator: Arc<Operator>,
    /// `None` on the admin socket, whose peer the kernel names.
    access: Option<Arc<AdminAccess>>,
}

/// The pages without forms, for the admin socket.
pub(crate) fn readable(operator: Arc<Operator>) -> Router {
    let pages = Pages {
        operator,
        access: None,
    };
    Router::new()
        .route("/", get(devices))
        .route("/device", get(device))
        .route("/admin.css", get(style))
        .layer(from_fn_with_state(pages.clone(), headed))
        .with_state(pages)
}

/// The pages and the requests for programs, for the port.
pub(crate) fn guarded(operator: Arc<Operator>, access: Arc<AdminAccess>) -> Router {
    let pages = Pages {
        operator: Arc::clone(&operator),
        access: Some(access),
    };
    let of_pages = Router::new()
        .route("/", get(devices))
        .route("/device", get(device))
        .route("/admin.css", get(style))
        .route("/login", get(log_in))
        .route("/order", post(forms::order))
        .layer(DefaultBodyLimit::max(MAX_FORM))
        .with_state(pages.clone());
    of_pages
        .merge(service::router(operator))
        .layer(from_fn_with_state(pages.clone(), guard))
        .layer(from_fn_with_state(pages, headed))
}

/// Adds the fields that each page has.
async fn headed(State(_): State<Pages>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let fields = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Without any referrer, browsers hide the origin of forms.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        fields.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Refuses whoever may not. A path that does not exist gets the same answer as one that does.
async fn guard(State(pages): State<Pages>, mut request: Request, next: Next) -> Response {
    let Some(access) = &pages.access else {
        return refused();
    };
    if !access.is_own(request.headers()) {
        return refused();
    }
    let path = request.uri().path();
    if ["/login", "/admin.css"].contains(&path) {
        return next.run(request).await;
    }
    let is_api = path.starts_with("/v1/");
    match access.visitor(request.headers(), Instant::now()) {
        // A form of another page could send a cookie, and never this field.
        Some(Visitor::Program) if is_api => next.run(request).await,
        Some(visitor @ Visitor::Browser { .. }) if !is_api => {
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
        Some(_) | None => refused(),
    }
}

fn refused() -> Response {
    let words = "This page needs the address that `longhaul-gateway admin` prints, which works once; programs need the token of \
                 `longhaul-gateway admin --token` in the field `Authorization: Bearer`.\n";
    (StatusCode::FORBIDDEN, words).into_response()
}

/// The fields of a query.
type Fields = Query<BTreeMap<String, String>>;

async fn log_in(State(pages): State<Pages>, Query(fields): Fields) -> Response {
    let code = fields.get("code");
    let admitted = pages.access.as_ref().zip(code);
    let admitted = admitted.and_then(|(access, code)| access.log_in(code, Instant::now()));
    match admitted {
        Some(cookie) => to("/", Some(&cookie)),
        None => refused(),
    }
}

/// Sends the browser to another page.
fn to(path: &str, cookie: Option<&str>) -> Response {
    let mut response = Response::builder()
        .status(StatusCode::SEE_OTHER)
        .header(header::LOCATION, path);
    if let Some(cookie) = cookie {
        response = response.header(header::SET_COOKIE, cookie);
    }
    let built = response.body(Body::empty());
    built.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

async fn style() -> impl axum::response::IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

/// The token of the forms; `None` on the admin socket, whose pages have no forms.
fn form_token(request: &Request) -> Option<String> {
    match request.extensions().get::<Visitor>()? {
        Visitor::Browser { form_token } => Some(form_token.clone()),
        Visitor::Program => None,
    }
}

async fn devices(State(pages): State<Pages>, request: Request) -> Response {
    let list = pages.operator.list().await;
    let state = status(&pages.operator.gateway);
    html(&views::devices(&list, &state, form_token(&request).as_deref()))
}

async fn device(State(pages): State<Pages>, Query(fields): Fields, request: Request) -> Response {
    let list = pages.operator.list().await;
    let wanted = fields.get("id");
    let found = list.devices.into_iter().find(|device| Some(&device.id) == wanted);
    match found {
        Some(device) => html(&views::device(&device, form_token(&request).as_deref())),
        None => told(StatusCode::NOT_FOUND, "No device has this id."),
    }
}

fn html(page: &Markup) -> Response {
    with_status(StatusCode::OK, page)
}

fn with_status(status: StatusCode, page: &Markup) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (status, kind, page.0.clone()).into_response()
}

/// A page that says why an order was not carried out.
fn told(status: StatusCode, words: &str) -> Response {
    with_status(status, &views::told(words))
}
