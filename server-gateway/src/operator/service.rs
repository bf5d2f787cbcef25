//! Answers to the requests on the admin socket.
use std::{sync::Arc, time::SystemTime};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    routing::{get, post},
};
use tracing::info;

use super::{
    changes::{Change, ChangeContext, ChangeError},
    messages::{AddRequest, DeviceList, ErrorReply, InviteRequest, RemoveRequest, RenameRequest},
    report::device_list,
};
use crate::{
    admission::{devices::Devices, register::DeviceRegister, state::StateDir},
    gateway::Gateway,
};

/// Path of the device list.
pub(crate) const DEVICES: &str = "/v1/devices";
/// Largest order. Names, addresses and keys take less than 1 KiB.
const MAX_ORDER: usize = 16 * 1024;

/// What the admin socket needs of the gateway.
pub(crate) struct Operator {
    pub(crate) register: Arc<DeviceRegister>,
    /// For the activity of devices, and the setting `public-address`, which may change.
    pub(crate) gateway: Arc<Gateway>,
}

/// The requests that the admin socket answers.
pub(crate) fn router(operator: Operator) -> Router {
    Router::new()
        .route(DEVICES, get(list))
        .route(InviteRequest::PATH, post(change::<InviteRequest>))
        .route(AddRequest::PATH, post(change::<AddRequest>))
        .route(RemoveRequest::PATH, post(change::<RemoveRequest>))
        .route(RenameRequest::PATH, post(change::<RenameRequest>))
        .layer(DefaultBodyLimit::max(MAX_ORDER))
        .with_state(Arc::new(operator))
}

async fn list(State(operator): State<Arc<Operator>>) -> Json<DeviceList> {
    let devices = operator.register.devices().await;
    let activity = operator.gateway.ledger.activity();
    Json(device_list(&devices, Some(&activity), SystemTime::now()))
}

/// The content type of an order is not checked: no browser reaches the socket, and `curl -d` is enough.
async fn change<C: Change>(
    State(operator): State<Arc<Operator>>,
    order: Bytes,
) -> Result<Json<C::Reply>, (StatusCode, Json<ErrorReply>)> {
    let order: C = serde_json::from_slice(&order).map_err(|error| {
        refusal(
            StatusCode::BAD_REQUEST,
            format!("the order is malformed: {error}"),
        )
    })?;
    let shared = Arc::clone(&operator);
    let apply = move |devices: &mut Devices, state: &StateDir| {
        let rules = shared.gateway.rules.load();
        let context = ChangeContext {
            state,
            public_address: rules.public_address.as_deref(),
            now: SystemTime::now(),
        };
        order.apply(devices, &context)
    };
    let reply = operator.register.change(apply).await;
    let reply = reply.map_err(|error: ChangeError| {
        let status = if error.is_fault_of_order() {
            StatusCode::CONFLICT
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        refusal(status, error.to_string())
    })?;
    info!(order = C::PATH, "the operator changed the list of devices");
    Ok(Json(reply))
}

fn refusal(status: StatusCode, error: String) -> (StatusCode, Json<ErrorReply>) {
    (status, Json(ErrorReply { error }))
}
