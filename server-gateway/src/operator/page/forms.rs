//! The orders of the admin page's forms.
use std::{collections::BTreeMap, time::Duration};

use axum::{
    body::Bytes,
    extract::{Extension, State},
    http::StatusCode,
    response::Response,
};
use url::form_urlencoded;

use super::{Pages, to, told};
use crate::{
    drain::MAX_LIMIT,
    operator::{
        access::Visitor,
        changes::ChangeError,
        messages::{QuotaRequest, RemoveRequest, RenameRequest, RestoreRequest},
    },
};

/// Carries out the order of a form, which needs the token that the page has.
pub(super) async fn order(
    State(pages): State<Pages>,
    visitor: Option<Extension<Visitor>>,
    form: Bytes,
) -> Response {
    let fields: BTreeMap<String, String> = form_urlencoded::parse(&form).into_owned().collect();
    let field = |name: &str| fields.get(name).map(|value| value.trim().to_owned());
    let Some(Extension(Visitor::Browser { form_token })) = visitor else {
        return told(StatusCode::FORBIDDEN, "This form is not for programs.");
    };
    if field("token") != Some(form_token) {
        return told(
            StatusCode::FORBIDDEN,
            "The form is not from this page. Open the page again.",
        );
    }
    let device = field("device").unwrap_or_default();
    let operator = &pages.operator;
    let done: Result<(), ChangeError> = match field("order").unwrap_or_default().as_str() {
        "rename" => {
            let name = field("name").unwrap_or_default();
            let order = RenameRequest {
                device: device.clone(),
                name,
            };
            operator.change(order).await.map(drop)
        }
        "quota" => {
            let order = QuotaRequest {
                device: device.clone(),
                rate: field("rate"),
                month: field("month"),
            };
            operator.change(order).await.map(drop)
        }
        "remove" => operator
            .change(RemoveRequest {
                device: device.clone(),
            })
            .await
            .map(drop),
        "restore" => operator
            .change(RestoreRequest {
                device: device.clone(),
            })
            .await
            .map(drop),
        "drain" => {
            let minutes = field("minutes").and_then(|text| text.parse::<u64>().ok());
            let limit = minutes
                .and_then(|minutes| minutes.checked_mul(60))
                .map(Duration::from_secs);
            let Some(limit) = limit.filter(|limit| *limit <= MAX_LIMIT) else {
                return told(StatusCode::CONFLICT, "Draining takes at most 1440 minutes.");
            };
            operator.drain(limit).await;
            return to("/", None);
        }
        _ => return told(StatusCode::BAD_REQUEST, "The form names no order."),
    };
    match done {
        // The id of a device has only hexadecimal digits.
        Ok(()) => to(&format!("/device?id={device}"), None),
        Err(error) if error.is_fault_of_order() => told(StatusCode::CONFLICT, &error.to_string()),
        Err(error) => told(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}
