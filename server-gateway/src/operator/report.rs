//! The device list for the operator: the file, and what a running gateway knows of the devices.
use std::{collections::BTreeMap, time::SystemTime};

use longhaul_types::PublicKey;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::messages::{DeviceEntry, DeviceList};
use crate::{
    admin::session_ledger::DeviceActivity,
    admission::devices::{Device, Devices},
};

/// Version of the object; a new version may remove fields or change their meaning.
const VERSION: u32 = 1;

/// The list of devices. `activity` is what a running gateway knows.
pub(crate) fn device_list(
    devices: &Devices,
    activity: Option<&BTreeMap<PublicKey, DeviceActivity>>,
    now: SystemTime,
) -> DeviceList {
    let unknown = DeviceActivity::default();
    let entry = |device: &Device| {
        let known = activity.map(|devices| devices.get(&device.key).unwrap_or(&unknown));
        entry(device, known, now)
    };
    DeviceList {
        version: VERSION,
        running: activity.is_some(),
        devices: devices.iter().map(entry).collect(),
    }
}

fn entry(device: &Device, activity: Option<&DeviceActivity>, now: SystemTime) -> DeviceEntry {
    let invite = device.invite.as_ref();
    let rtt = activity.and_then(|known| known.rtt);
    DeviceEntry {
        name: device.name.clone(),
        id: device.id().to_string(),
        key: device.key.to_string(),
        status: device.state(now).word().to_owned(),
        added: normalised(&device.added),
        revoked: device.revoked.as_deref().map(normalised),
        invite_expires: invite.map(|invite| rfc3339(invite.expires)),
        one_time: invite.is_some_and(|invite| invite.is_one_time),
        last_seen: activity.and_then(|known| known.heard).map(rfc3339),
        session_since: activity.and_then(|known| known.since).map(rfc3339),
        software: activity.and_then(|known| known.software.clone()),
        bytes_up: activity.map(|known| known.bytes.received),
        bytes_down: activity.map(|known| known.bytes.sent),
        rtt_ms: rtt.map(|rtt| u64::try_from(rtt.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// A time in RFC 3339, in whole seconds.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    OffsetDateTime::from(time)
        .replace_nanosecond(0)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// An HTTP date of the file as RFC 3339. A text that is no date stays as somebody wrote it.
fn normalised(date: &str) -> String {
    httpdate::parse_http_date(date).map_or_else(|_| date.to_owned(), rfc3339)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longhaul_types::SecretKey;

    use super::*;
    use crate::{admin::metrics::LinkBytes, admission::devices::PendingInvite};

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
        let stopped = device_list(&devices, None, NOW);
        assert!(!stopped.running);
        assert_eq!(stopped.devices[0].bytes_up, None, "null and not zero");
        let known = DeviceActivity {
            heard: Some(NOW + Duration::from_secs(90)),
            rtt: Some(Duration::from_millis(640)),
            bytes: LinkBytes { sent: 7, received: 9 },
            ..DeviceActivity::default()
        };
        let later = NOW + Duration::from_secs(61);
        let running = device_list(&devices, Some(&[(key(1), known)].into()), later);
        let [a, b] = &running.devices[..] else {
            panic!("two devices")
        };
        assert_eq!(
            (a.bytes_up, a.bytes_down, a.rtt_ms),
            (Some(9), Some(7), Some(640))
        );
        assert_eq!(a.last_seen.as_deref(), Some("1970-01-01T00:01:30Z"));
        assert_eq!((b.bytes_up, b.last_seen.as_deref()), (Some(0), None));
        assert_eq!((b.status.as_str(), b.one_time), ("expired", true));
        assert_eq!(b.invite_expires.as_deref(), Some("1970-01-01T00:01:00Z"));
    }
}
