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

/// Order to admit a removed device again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreRequest {
    /// Name, id or public key.
    pub(crate) device: String,
}

/// Order to change the quota of a device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuotaRequest {
    /// Name, id or public key.
    pub(crate) device: String,
    /// A rate such as `2Mbit/s`, `none` or `default`; without it the rate stays as it is.
    #[serde(default)]
    pub(crate) rate: Option<String>,
    /// A size such as `5GB`, `none` or `default`; without it the size stays as it is.
    #[serde(default)]
    pub(crate) month: Option<String>,
}

/// The quota of a device after a change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct QuotaReply {
    pub(crate) name: String,
    pub(crate) id: String,
    /// A rate, `none` or `default`.
    pub(crate) rate: String,
    /// A size, `none` or `default`.
    pub(crate) month: String,
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
    /// `open` (its packets arrive), `away`, `invited`, `expired` or `revoked`; null without a running gateway.
    pub(crate) state: Option<String>,
    /// Own rate of the device, `none`, or `default`.
    pub(crate) quota_rate: String,
    /// Own bytes of the device in a month, `none`, or `default`.
    pub(crate) quota_month: String,
    /// Rate of the quota in bit/s; null for no limit.
    pub(crate) quota_rate_bps: Option<u64>,
    /// Bytes of the quota in a month; null for no limit.
    pub(crate) quota_month_bytes: Option<u64>,
    /// True if the bytes of the month are used up.
    pub(crate) quota_reached: bool,
    /// End of the month.
    pub(crate) month_ends: String,
    /// Last packet from the device.
    pub(crate) last_seen: Option<String>,
    /// Start of the open session.
    pub(crate) session_since: Option<String>,
    /// Program and version of the agent.
    pub(crate) software: Option<String>,
    /// Rate of the link towards the device in bit/s, as the last session knew it.
    pub(crate) link_bps: Option<u64>,
    /// Bytes from the device, with IP and UDP headers, also from before the gateway's start.
    pub(crate) bytes_up: Option<u64>,
    /// Bytes to the device, with IP and UDP headers, also from before the gateway's start.
    pub(crate) bytes_down: Option<u64>,
    /// Bytes from the device in this month.
    pub(crate) month_bytes_up: Option<u64>,
    /// Bytes to the device in this month.
    pub(crate) month_bytes_down: Option<u64>,
    /// Round-trip time of the open session in milliseconds.
    pub(crate) rtt_ms: Option<u64>,
}

/// An order that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct ErrorReply {
    /// What is wrong and what to do.
    pub(crate) error: String,
}
