//! Answers to the requests on the admin socket.
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    routing::{get, post},
};
use longhaul_driver::Admission;
use longhaul_gateway_core::{
    admission::{devices::Devices, state::StateDir},
    device_register::DeviceRegister,
    gateway::Gateway,
};
use tracing::info;

use super::{
    access::AdminAccess,
    changes::{Change, ChangeContext, ChangeError},
    messages::{
        AddRequest, DeviceList, ErrorReply, InviteRequest, QuotaRequest, RemoveRequest, RenameRequest,
        RestoreRequest,
    },
    orders::{AccessReply, AccessRequest, DrainRequest, GatewayStatus, KeepReply, KeepRequest, Order},
    report::{Known, device_list},
    status::status,
};

/// Path of the device list.
pub(crate) const DEVICES: &str = "/v1/devices";
/// Path of the gateway's state.
pub(crate) const STATUS: &str = "/v1/status";
/// Largest order. Names, addresses and keys take less than 1 KiB.
const MAX_ORDER: usize = 16 * 1024;

/// What the admin socket needs of the gateway.
pub(crate) struct Operator {
    pub(crate) register: Arc<DeviceRegister>,
    /// For the activity of devices, and the setting `public-address`, which may change.
    pub(crate) gateway: Arc<Gateway>,
    /// Who may use the admin port; `None` if it is off.
    pub(crate) access: Option<Arc<AdminAccess>>,
    /// To refuse new sessions.
    pub(crate) admission: Admission,
}

/// The requests that the admin socket answers.
pub(crate) fn router(operator: Arc<Operator>) -> Router {
    Router::new()
        .route(DEVICES, get(list))
        .route(InviteRequest::PATH, post(change::<InviteRequest>))
        .route(AddRequest::PATH, post(change::<AddRequest>))
        .route(RemoveRequest::PATH, post(change::<RemoveRequest>))
        .route(RenameRequest::PATH, post(change::<RenameRequest>))
        .route(RestoreRequest::PATH, post(change::<RestoreRequest>))
        .route(QuotaRequest::PATH, post(change::<QuotaRequest>))
        .route(STATUS, get(state))
        .route(DrainRequest::PATH, post(drain))
        .route(KeepRequest::PATH, post(keep))
        .layer(DefaultBodyLimit::max(MAX_ORDER))
        .with_state(operator)
}

/// The request for an access to the admin port, only on the admin socket.
pub(crate) fn access_router(operator: Arc<Operator>) -> Router {
    Router::new()
        .route(AccessRequest::PATH, post(give_access))
        .layer(DefaultBodyLimit::max(MAX_ORDER))
        .with_state(operator)
}

async fn give_access(
    State(operator): State<Arc<Operator>>,
    order: Bytes,
) -> Result<Json<AccessReply>, (StatusCode, Json<ErrorReply>)> {
    let AccessRequest {} = parse(&order)?;
    let access = operator.access.as_ref().ok_or_else(|| {
        let words = "the gateway has no admin port: set `[admin] listen = \"127.0.0.1:9434\"` in its configuration and restart it";
        refusal(StatusCode::CONFLICT, words.to_owned())
    })?;
    Ok(Json(AccessReply {
        url: access.url(),
        token: access.token().to_owned(),
    }))
}

impl Operator {
    /// The device list.
    pub(crate) async fn list(&self) -> DeviceList {
        let devices = self.register.devices().await;
        let activity = self.gateway.ledger.activity();
        let defaults = self.gateway.rules.load().quota;
        device_list(&devices, &Known::Running(&activity), defaults, SystemTime::now())
    }

    /// Carries out a change.
    ///
    /// # Errors
    /// The list cannot be changed so.
    pub(crate) async fn change<C: Change>(self: &Arc<Self>, order: C) -> Result<C::Reply, ChangeError> {
        let shared = Arc::clone(self);
        let apply = move |devices: &mut Devices, state: &StateDir| {
            let rules = shared.gateway.rules.load();
            let context = ChangeContext {
                state,
                public_address: rules.public_address.as_deref(),
                now: SystemTime::now(),
            };
            order.apply(devices, &context)
        };
        let reply = self.register.change(apply).await?;
        info!(order = C::PATH, "the operator changed the list of devices");
        Ok(reply)
    }

    /// Begins to drain.
    pub(crate) async fn drain(&self, limit: Duration) {
        self.gateway.drain.begin(limit);
        self.admission.set_draining(true).await;
        info!(
            ?limit,
            "the gateway drains: it opens no more sessions, and ends when nothing is in progress"
        );
    }
}

async fn list(State(operator): State<Arc<Operator>>) -> Json<DeviceList> {
    Json(operator.list().await)
}

async fn state(State(operator): State<Arc<Operator>>) -> Json<GatewayStatus> {
    Json(status(&operator.gateway))
}

async fn drain(
    State(operator): State<Arc<Operator>>,
    order: Bytes,
) -> Result<Json<GatewayStatus>, (StatusCode, Json<ErrorReply>)> {
    let order: DrainRequest = parse(&order)?;
    let limit = order.limit().ok_or_else(|| {
        refusal(
            StatusCode::CONFLICT,
            "--limit: draining takes at most 24h".to_owned(),
        )
    })?;
    operator.drain(limit).await;
    Ok(Json(status(&operator.gateway)))
}

async fn keep(
    State(operator): State<Arc<Operator>>,
    order: Bytes,
) -> Result<Json<KeepReply>, (StatusCode, Json<ErrorReply>)> {
    let KeepRequest {} = parse(&order)?;
    let kept = operator.register.keep_usage().await;
    kept.map_err(|error| refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(Json(KeepReply {}))
}

fn parse<T: serde::de::DeserializeOwned>(order: &[u8]) -> Result<T, (StatusCode, Json<ErrorReply>)> {
    serde_json::from_slice(order).map_err(|error| {
        refusal(
            StatusCode::BAD_REQUEST,
            format!("the order is malformed: {error}"),
        )
    })
}

/// The content type of an order is not checked: no browser reaches the socket, and `curl -d` is enough.
async fn change<C: Change>(
    State(operator): State<Arc<Operator>>,
    order: Bytes,
) -> Result<Json<C::Reply>, (StatusCode, Json<ErrorReply>)> {
    let order: C = parse(&order)?;
    let reply = operator.change(order).await;
    let reply = reply.map_err(|error: ChangeError| {
        let status = if error.is_fault_of_order() {
            StatusCode::CONFLICT
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        refusal(status, error.to_string())
    })?;
    Ok(Json(reply))
}

fn refusal(status: StatusCode, error: String) -> (StatusCode, Json<ErrorReply>) {
    (status, Json(ErrorReply { error }))
}
