//! Orders to a running gateway that do not change the list of devices.
use std::time::Duration;

use longhaul_gateway_core::drain::{DEFAULT_LIMIT, MAX_LIMIT};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// An order that only a running gateway carries out.
pub(crate) trait Order: Serialize + DeserializeOwned + Send + 'static {
    /// Path of the HTTP request.
    const PATH: &'static str;
    /// The answer.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
}

/// Order to drain: no session begins any more, and the gateway ends when nothing is in progress.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrainRequest {
    /// Longest time in seconds for what is in progress; without it ten minutes.
    #[serde(default)]
    pub(crate) limit_s: Option<u64>,
}

impl DrainRequest {
    /// The limit; `None` if it is too long.
    pub(crate) fn limit(&self) -> Option<Duration> {
        let limit = self.limit_s.map_or(DEFAULT_LIMIT, Duration::from_secs);
        (limit <= MAX_LIMIT).then_some(limit)
    }
}

impl Order for DrainRequest {
    const PATH: &'static str = "/v1/drain";
    type Reply = GatewayStatus;
}

/// Order to write what is known of the devices into the state directory, before a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeepRequest {}

impl Order for KeepRequest {
    const PATH: &'static str = "/v1/keep";
    type Reply = KeepReply;
}

/// What is known of the devices is in the state directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct KeepReply {}

/// Order of an access to the admin port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccessRequest {}

impl Order for AccessRequest {
    const PATH: &'static str = "/v1/access";
    type Reply = AccessReply;
}

/// Access to the admin port. It is a secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct AccessReply {
    /// Address of the port.
    pub(crate) url: String,
    /// Token for programs, for the field `Authorization: Bearer`. It ends with the gateway.
    pub(crate) token: String,
}

/// State of the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct GatewayStatus {
    /// Version of this object.
    pub(crate) version: u32,
    /// Program and version.
    pub(crate) software: String,
    /// Start of the gateway.
    pub(crate) since: String,
    /// True if no session begins any more.
    pub(crate) draining: bool,
    /// Open sessions.
    pub(crate) sessions: usize,
    /// Longest time in seconds that what is in progress still has; null if the gateway does not drain.
    pub(crate) ends_within_s: Option<u64>,
    /// Refused and dropped handshakes since the start, by reason.
    pub(crate) handshakes_refused: std::collections::BTreeMap<String, u64>,
    /// Accepted handshakes since the start.
    pub(crate) handshakes_accepted: u64,
}
