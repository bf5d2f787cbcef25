//! Invites: a device with a new key, and the line with which its agent finds and trusts this gateway.
use std::time::{Duration, SystemTime};

use longhaul_types::{DeviceId, Invite, UnixTime};

use super::{
    devices::{Devices, DevicesError, PendingInvite},
    state::{StateDir, StateError, random_key},
};

/// Lifetime of the first token (docs/protocol/transport.md section 3.7): half a year, for an invite that is
/// not used at once. Later the invite still works, but its first session takes one more round trip.
const TOKEN_LIFETIME: Duration = Duration::from_secs(180 * 24 * 3600);
/// Shortest validity of an invite.
pub const MIN_VALIDITY: Duration = Duration::from_secs(1);
/// Validity of an invite if the operator names none: a line that was forgotten in a mailbox becomes harmless.
pub const DEFAULT_VALIDITY: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest validity of an invite.
pub const MAX_VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);

/// An invite that the operator wants.
#[derive(Clone, Debug)]
pub struct InviteOrder<'a> {
    /// Name of the device.
    pub name: &'a str,
    /// Address of the gateway, `HOST:PORT`.
    pub address: &'a str,
    /// Time within which an agent has to use the invite.
    pub validity: Duration,
    /// True if only the first agent that uses the invite is admitted.
    pub is_one_time: bool,
    /// True if an admitted device of this name is removed.
    pub replaces: bool,
}

/// An invite, and the device that it admits.
#[derive(Clone, Debug)]
pub struct IssuedInvite {
    /// The invite, with the device's secret key.
    pub invite: Invite,
    /// Its entry in the list of devices.
    pub pending: PendingInvite,
    /// The device that was removed.
    pub replaced: Option<DeviceId>,
}

/// Errors of making an invite.
#[derive(Debug, thiserror::Error)]
pub enum InviteError {
    /// The address is not valid.
    #[error(
        "--address: `{0}` is not HOST:PORT; write the name or address and the UDP port by which agents reach this gateway"
    )]
    Address(String),
    /// The device list cannot be read or changed.
    #[error(transparent)]
    Devices(#[from] DevicesError),
    /// No address is known.
    #[error(
        "the invite needs the address by which agents reach this gateway: set `public-address = \"HOST:PORT\"` in the \
         gateway's configuration, or add --address HOST:PORT"
    )]
    NoAddress,
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The invite would be valid for too long or too short a time.
    #[error("--expires: an invite is valid for at least 1s and at most 365d")]
    Validity,
}

/// Makes an invite and admits its device. The list changes only if the invite is complete.
pub fn issue(
    devices: &mut Devices,
    state: &StateDir,
    order: &InviteOrder<'_>,
    now: SystemTime,
) -> Result<IssuedInvite, InviteError> {
    if !(MIN_VALIDITY..=MAX_VALIDITY).contains(&order.validity) {
        return Err(InviteError::Validity);
    }
    let keys = state.keys()?;
    let device = random_key()?;
    let public = device.public();
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(StateError::Random)?;
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let expiry = UnixTime::new(since_epoch) + TOKEN_LIFETIME;
    let token = keys.epoch.mint(&public, random, expiry);
    let invite = Invite::new(order.address.to_owned(), keys.secret.public(), device, token)
        .map_err(|_| InviteError::Address(order.address.to_owned()))?;
    let mut replaced = None;
    if order.replaces {
        let old = devices
            .iter()
            .find(|device| device.revoked.is_none() && device.name == order.name);
        if let Some(key) = old.map(|device| device.key.to_string()) {
            replaced = Some(devices.revoke(&key, now)?.id());
        }
    }
    let pending = PendingInvite::new(now, order.validity, order.is_one_time);
    devices.invite(order.name, public, pending, now)?;
    Ok(IssuedInvite {
        invite,
        pending,
        replaced,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::devices::DeviceState;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn order(name: &str) -> InviteOrder<'_> {
        InviteOrder {
            name,
            address: "gw.test:4433",
            validity: Duration::from_secs(60),
            is_one_time: false,
            replaces: false,
        }
    }

    fn state() -> (tempfile::TempDir, StateDir) {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(home.path()).unwrap();
        (home, state)
    }

    #[test]
    fn a_replaced_device_is_revoked_and_keeps_its_entry() {
        let (_home, state) = state();
        let mut devices = Devices::default();
        let first = issue(&mut devices, &state, &order("laptop"), NOW).unwrap();
        let taken = issue(&mut devices, &state, &order("laptop"), NOW).unwrap_err();
        assert!(taken.to_string().contains("--replace"), "{taken}");
        let replacing = InviteOrder {
            replaces: true,
            ..order("laptop")
        };
        let second = issue(&mut devices, &state, &replacing, NOW).unwrap();
        let old = DeviceId::of(&first.invite.device().public());
        assert_eq!(second.replaced, Some(old));
        let states: Vec<_> = devices.iter().map(|device| device.state(NOW)).collect();
        assert_eq!(states, [DeviceState::Revoked, DeviceState::Invited]);
    }

    #[test]
    fn a_replaced_device_leaves_the_others_admitted() {
        let (_home, state) = state();
        let mut devices = Devices::default();
        for name in ["desk", "laptop", "phone"] {
            issue(&mut devices, &state, &order(name), NOW).unwrap();
        }
        let replacing = InviteOrder {
            replaces: true,
            ..order("laptop")
        };
        issue(&mut devices, &state, &replacing, NOW).unwrap();
        issue(&mut devices, &state, &replacing, NOW).unwrap();
        let admitted = devices.iter().filter(|device| device.revoked.is_none());
        let mut names: Vec<&str> = admitted.map(|device| device.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["desk", "laptop", "phone"]);
    }

    #[test]
    fn validity_and_address_have_bounds_and_a_mistake_admits_nobody() {
        let (_home, state) = state();
        let mut devices = Devices::default();
        for validity in [Duration::ZERO, MAX_VALIDITY + Duration::from_secs(1)] {
            let wrong = InviteOrder {
                validity,
                ..order("a")
            };
            assert!(matches!(
                issue(&mut devices, &state, &wrong, NOW),
                Err(InviteError::Validity)
            ));
        }
        let wrong = InviteOrder {
            address: "gw.test",
            ..order("a")
        };
        assert!(matches!(
            issue(&mut devices, &state, &wrong, NOW),
            Err(InviteError::Address(_))
        ));
        assert_eq!(devices.iter().count(), 0);
    }
}
