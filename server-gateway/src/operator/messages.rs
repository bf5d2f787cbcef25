//! Messages of the admin socket, version 1: JSON bodies of HTTP requests and responses. `invite --json` and
//! `device list --json` print the same objects.
use serde::{Deserialize, Serialize};

/// Order of an invite.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InviteRequest {
    /// Name of the device.
    pub(crate) name: String,
    /// `HOST:PORT`; without it the gateway's setting `public-address` applies.
    #[serde(default)]
    pub(crate) address: Option<String>,
    /// Validity in seconds; without it 30 days.
    #[serde(default)]
    pub(crate) expires_s: Option<u64>,
    /// True if only the first agent that uses the invite is admitted.
    #[serde(default)]
    pub(crate) one_time: bool,
    /// True if an admitted device of this name is removed.
    #[serde(default)]
    pub(crate) replace: bool,
}

/// An invite. It contains the device's secret key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct InviteReply {
    pub(crate) name: String,
    pub(crate) id: String,
    /// Public key of the device.
    pub(crate) key: String,
    pub(crate) address: String,
    /// The line for the agent.
    pub(crate) invite: String,
    /// End of the validity (RFC 3339).
    pub(crate) expires: String,
    pub(crate) one_time: bool,
    /// Id of the device that was removed.
    pub(crate) replaced: Option<String>,
}

/// Order to admit a device by its public key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddRequest {
    pub(crate) name: String,
    /// 43 characters of base64url.
    pub(crate) key: String,
}

/// Order to remove a device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveRequest {
    /// Name, id or public key.
    pub(crate) device: String,
}

/// Order to rename a device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenameRequest {
    /// Name, id or public key.
    pub(crate) device: String,
    /// The new name.
    pub(crate) name: String,
}

/// The device that an order changed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct DeviceReply {
    pub(crate) name: String,
    pub(crate) id: String,
}

/// The device list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct DeviceList {
    /// Version of this object.
    pub(crate) version: u32,
    /// True if a running gateway gave the list. Without one, the fields of sessions are null.
    pub(crate) running: bool,
    pub(crate) devices: Vec<DeviceEntry>,
}

/// A device. Times are in RFC 3339; a value that is not known is null.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct DeviceEntry {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) key: String,
    /// `admitted`, `invited`, `expired` or `revoked`.
    pub(crate) status: String,
    pub(crate) added: String,
    pub(crate) revoked: Option<String>,
    /// End of the validity of an invite that no agent has used.
    pub(crate) invite_expires: Option<String>,
    pub(crate) one_time: bool,
    /// Last packet from the device since the gateway's start.
    pub(crate) last_seen: Option<String>,
    /// Start of the open session.
    pub(crate) session_since: Option<String>,
    /// Program and version of the agent.
    pub(crate) software: Option<String>,
    /// Bytes from the device since the gateway's start, with IP and UDP headers.
    pub(crate) bytes_up: Option<u64>,
    /// Bytes to the device since the gateway's start, with IP and UDP headers.
    pub(crate) bytes_down: Option<u64>,
    /// Round-trip time of the open session in milliseconds.
    pub(crate) rtt_ms: Option<u64>,
}

/// An order that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct ErrorReply {
    /// What is wrong and what to do.
    pub(crate) error: String,
}
