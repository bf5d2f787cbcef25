//! The changes of the device list that an operator makes. They are the same with and without a running
//! gateway.
use std::time::{Duration, SystemTime};

use longhaul_gateway_core::{
    admission::{
        devices::{Device, Devices, DevicesError},
        invites::{self, DEFAULT_VALIDITY, InviteError, InviteOrder},
        state::StateDir,
    },
    quota_limits::{Limit, LimitError},
    rfc3339::rfc3339,
};
use longhaul_types::{BitRate, ByteCount, DeviceId, ParseKeyError, PublicKey};
use serde::{Serialize, de::DeserializeOwned};

use super::messages::{
    AddRequest, DeviceReply, InviteReply, InviteRequest, QuotaReply, QuotaRequest, RemoveRequest,
    RenameRequest, RestoreRequest,
};

/// Errors of a change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The list cannot be changed so.
    #[error(transparent)]
    Devices(#[from] DevicesError),
    /// The invite cannot be made.
    #[error(transparent)]
    Invite(#[from] InviteError),
    /// The text is no limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The text is not a key.
    #[error(transparent)]
    Key(#[from] ParseKeyError),
}

impl ChangeError {
    /// True if the order is at fault, and not the files of the gateway.
    pub(crate) const fn is_fault_of_order(&self) -> bool {
        match self {
            Self::Devices(error) | Self::Invite(InviteError::Devices(error)) => match error {
                DevicesError::Read { .. } | DevicesError::Damaged { .. } | DevicesError::Write(_) => false,
                DevicesError::BadName(_)
                | DevicesError::NameTaken(_)
                | DevicesError::KeyTaken { .. }
                | DevicesError::NotFound(_)
                | DevicesError::NotRemoved(_)
                | DevicesError::Unknown(_)
                | DevicesError::Ambiguous { .. }
                | DevicesError::Full => true,
            },
            Self::Invite(InviteError::State(_)) => false,
            Self::Invite(InviteError::Address(_) | InviteError::NoAddress | InviteError::Validity)
            | Self::Key(_)
            | Self::Limit(_) => true,
        }
    }
}

/// What a change needs besides the list.
pub(crate) struct ChangeContext<'a> {
    pub(crate) state: &'a StateDir,
    /// The setting `public-address`.
    pub(crate) public_address: Option<&'a str>,
    pub(crate) now: SystemTime,
}

/// A change that an operator orders.
pub(crate) trait Change: Serialize + DeserializeOwned + Send + 'static {
    /// Path of the HTTP request.
    const PATH: &'static str;
    /// The answer.
    type Reply: Serialize + DeserializeOwned + Send + 'static;

    /// Applies the change to the list.
    fn apply(self, devices: &mut Devices, context: &ChangeContext<'_>) -> Result<Self::Reply, ChangeError>;
}

impl Change for InviteRequest {
    const PATH: &'static str = "/v1/invite";
    type Reply = InviteReply;

    fn apply(self, devices: &mut Devices, context: &ChangeContext<'_>) -> Result<InviteReply, ChangeError> {
        let address = self.address.as_deref().or(context.public_address);
        let order = InviteOrder {
            name: &self.name,
            address: address.ok_or(InviteError::NoAddress)?,
            validity: self.expires_s.map_or(DEFAULT_VALIDITY, Duration::from_secs),
            is_one_time: self.one_time,
            replaces: self.replace,
        };
        let issued = invites::issue(devices, context.state, &order, context.now)?;
        let key = issued.invite.device().public();
        Ok(InviteReply {
            id: DeviceId::of(&key).to_string(),
            key: key.to_string(),
            address: issued.invite.address().to_owned(),
            invite: issued.invite.to_line(),
            expires: rfc3339(issued.pending.expires),
            one_time: issued.pending.is_one_time,
            replaced: issued.replaced.map(|id| id.to_string()),
            name: self.name,
        })
    }
}

impl Change for AddRequest {
    const PATH: &'static str = "/v1/device/add";
    type Reply = DeviceReply;

    fn apply(self, devices: &mut Devices, context: &ChangeContext<'_>) -> Result<DeviceReply, ChangeError> {
        let key: PublicKey = self.key.parse()?;
        devices.add(&self.name, key, context.now)?;
        Ok(DeviceReply {
            name: self.name,
            id: DeviceId::of(&key).to_string(),
        })
    }
}

impl Change for RemoveRequest {
    const PATH: &'static str = "/v1/device/remove";
    type Reply = DeviceReply;

    fn apply(self, devices: &mut Devices, context: &ChangeContext<'_>) -> Result<DeviceReply, ChangeError> {
        Ok(reply(devices.revoke(&self.device, context.now)?))
    }
}

impl Change for RenameRequest {
    const PATH: &'static str = "/v1/device/rename";
    type Reply = DeviceReply;

    fn apply(self, devices: &mut Devices, _: &ChangeContext<'_>) -> Result<DeviceReply, ChangeError> {
        Ok(reply(devices.rename(&self.device, &self.name)?))
    }
}

impl Change for RestoreRequest {
    const PATH: &'static str = "/v1/device/restore";
    type Reply = DeviceReply;

    fn apply(self, devices: &mut Devices, _: &ChangeContext<'_>) -> Result<DeviceReply, ChangeError> {
        Ok(reply(devices.restore(&self.device)?))
    }
}

impl Change for QuotaRequest {
    const PATH: &'static str = "/v1/device/quota";
    type Reply = QuotaReply;

    fn apply(self, devices: &mut Devices, _: &ChangeContext<'_>) -> Result<QuotaReply, ChangeError> {
        let rate: Option<Limit<BitRate>> = self.rate.as_deref().map(str::parse).transpose()?;
        let month: Option<Limit<ByteCount>> = self.month.as_deref().map(str::parse).transpose()?;
        let device = devices.set_quota(&self.device, |quota| {
            quota.rate = rate.unwrap_or(quota.rate);
            quota.month = month.unwrap_or(quota.month);
        })?;
        Ok(QuotaReply {
            id: device.id().to_string(),
            rate: device.quota.rate.to_string(),
            month: device.quota.month.to_string(),
            name: device.name,
        })
    }
}

fn reply(device: Device) -> DeviceReply {
    DeviceReply {
        id: device.id().to_string(),
        name: device.name,
    }
}
