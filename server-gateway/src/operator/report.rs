//! The device list for the operator: the file, and what a running gateway knows of the devices.
use std::{collections::BTreeMap, time::SystemTime};

use longhaul_gateway_core::{
    admin::{
        device_usage::{DeviceUsage, Month},
        session_ledger::DeviceActivity,
    },
    admission::devices::{Device, DeviceState, Devices},
    quota_limits::QuotaDefaults,
    rfc3339::{normalised, rfc3339},
};
use longhaul_types::{BitRate, ByteCount, PublicKey};

use super::messages::{DeviceEntry, DeviceList};

/// Version of the object; a new version may remove fields or change their meaning.
const VERSION: u32 = 1;

/// What is known of devices beside the list.
pub(crate) enum Known<'a> {
    /// What a running gateway knows.
    Running(&'a BTreeMap<PublicKey, DeviceActivity>),
    /// What the last gateway has written.
    Files(&'a BTreeMap<PublicKey, DeviceUsage>),
}

/// The list of devices.
pub(crate) fn device_list(
    devices: &Devices,
    known: &Known<'_>,
    defaults: QuotaDefaults,
    now: SystemTime,
) -> DeviceList {
    let unknown = DeviceActivity::default();
    let entry = |device: &Device| match known {
        Known::Running(devices) => {
            let known = devices.get(&device.key).unwrap_or(&unknown);
            entry(device, Some(known), &known.usage, defaults, now)
        }
        Known::Files(usage) => {
            let usage = usage.get(&device.key).unwrap_or(&unknown.usage);
            entry(device, None, usage, defaults, now)
        }
    };
    DeviceList {
        version: VERSION,
        running: matches!(known, Known::Running(_)),
        devices: devices.iter().map(entry).collect(),
    }
}

fn entry(
    device: &Device,
    running: Option<&DeviceActivity>,
    usage: &DeviceUsage,
    defaults: QuotaDefaults,
    now: SystemTime,
) -> DeviceEntry {
    let invite = device.invite.as_ref();
    let rtt = running.and_then(|known| known.rtt);
    let quota = device.quota.within(defaults);
    let in_month = usage.in_month(now);
    DeviceEntry {
        name: device.name.clone(),
        id: device.id().to_string(),
        key: device.key.to_string(),
        status: device.state(now).word().to_owned(),
        state: running.map(|known| state(device, known, now).to_owned()),
        added: normalised(&device.added),
        revoked: device.revoked.as_deref().map(normalised),
        invite_expires: invite.map(|invite| rfc3339(invite.expires)),
        one_time: invite.is_some_and(|invite| invite.is_one_time),
        quota_rate: device.quota.rate.to_string(),
        quota_month: device.quota.month.to_string(),
        quota_rate_bps: quota.rate.map(BitRate::as_bps),
        quota_month_bytes: quota.month.map(ByteCount::bytes),
        quota_reached: quota.month.is_some_and(|month| in_month.both() >= month.bytes()),
        month_ends: rfc3339(Month::of(now).end()),
        last_seen: usage.heard.map(rfc3339),
        session_since: running.and_then(|known| known.since).map(rfc3339),
        software: usage.software.clone(),
        link_bps: usage.link.map(BitRate::as_bps),
        bytes_up: Some(usage.total.received),
        bytes_down: Some(usage.total.sent),
        month_bytes_up: Some(in_month.received),
        month_bytes_down: Some(in_month.sent),
        rtt_ms: rtt.map(|rtt| u64::try_from(rtt.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// The state of a device at a running gateway.
fn state(device: &Device, known: &DeviceActivity, now: SystemTime) -> &'static str {
    match device.state(now) {
        DeviceState::Admitted if known.is_open => "open",
        DeviceState::Admitted => "away",
        other @ (DeviceState::Invited | DeviceState::Expired | DeviceState::Revoked) => other.word(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longhaul_types::SecretKey;

    use super::*;
    use longhaul_gateway_core::{admin::metrics::LinkBytes, admission::devices::PendingInvite};

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn key(seed: u8) -> PublicKey {
        SecretKey::from_bytes([seed; 32]).public()
    }

    #[test]
    fn a_running_gateway_adds_what_it_knows() {
        let mut devices = Devices::default();
        devices.add("a", key(1), NOW).unwrap();
        let invite = PendingInvite::new(NOW, Duration::from_secs(60), true);
        devices.invite("b", key(2), invite, NOW).unwrap();
        let nothing = BTreeMap::new();
        let defaults = QuotaDefaults {
            rate: None,
            month: Some(ByteCount::new(16)),
        };
        let stopped = device_list(&devices, &Known::Files(&nothing), defaults, NOW);
        assert!(!stopped.running);
        assert_eq!(stopped.devices[0].state, None);
        let mut usage = DeviceUsage::default();
        usage.heard = Some(NOW + Duration::from_secs(90));
        usage.count(LinkBytes { sent: 7, received: 9 }, NOW);
        let known = DeviceActivity {
            usage,
            rtt: Some(Duration::from_millis(640)),
            is_open: true,
            ..DeviceActivity::default()
        };
        let later = NOW + Duration::from_secs(61);
        let activity = [(key(1), known)].into();
        let running = device_list(&devices, &Known::Running(&activity), defaults, later);
        let [a, b] = &running.devices[..] else {
            panic!("two devices")
        };
        assert_eq!(
            (a.bytes_up, a.bytes_down, a.rtt_ms),
            (Some(9), Some(7), Some(640))
        );
        assert_eq!(a.last_seen.as_deref(), Some("1970-01-01T00:01:30Z"));
        assert_eq!((b.bytes_up, b.last_seen.as_deref()), (Some(0), None));
        assert_eq!((a.quota_reached, b.quota_reached), (true, false));
        assert_eq!(
            (a.state.as_deref(), b.state.as_deref()),
            (Some("open"), Some("expired"))
        );
        assert_eq!(a.month_ends, "1970-02-01T00:00:00Z");
        assert_eq!((b.status.as_str(), b.one_time), ("expired", true));
        assert_eq!(b.invite_expires.as_deref(), Some("1970-01-01T00:01:00Z"));
    }
}
