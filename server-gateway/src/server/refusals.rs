//! Devices that were refused a session: counted, and logged if the list of devices names them.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use longhaul_driver::Refusal;
use longhaul_gateway_core::gateway::Gateway;
use longhaul_types::{DeviceId, PublicKey};
use tokio::{sync::mpsc, time::Instant};
use tracing::{debug, info, warn};

/// Interval between two log lines for the same device: its agent tries again every 30 s.
const AGAIN: Duration = Duration::from_secs(3600);
/// Maximum number of devices whose last line is remembered.
const MAX_REMEMBERED: usize = 4096;

/// Times of the last log lines.
#[derive(Default)]
struct LastLines(BTreeMap<PublicKey, Instant>);

impl LastLines {
    /// Returns true if a line for this device is due.
    fn is_due(&mut self, device: PublicKey, now: Instant) -> bool {
        if self.0.get(&device).is_some_and(|last| now < *last + AGAIN) {
            return false;
        }
        if self.0.len() >= MAX_REMEMBERED {
            self.0.clear();
        }
        self.0.insert(device, now);
        true
    }
}

/// Reports refused devices until the listener ends.
pub(super) async fn report(gateway: Arc<Gateway>, refusals: Option<mpsc::Receiver<(PublicKey, Refusal)>>) {
    let Some(mut refusals) = refusals else {
        return;
    };
    let mut lines = LastLines::default();
    while let Some((device, refusal)) = refusals.recv().await {
        gateway.metrics.refused(refusal);
        if refusal == Refusal::TooManySessions {
            gateway.metrics.limit_reached("sessions");
        }
        let id = DeviceId::of(&device);
        match refusal {
            // Anybody who knows the gateway's key can make keys: no line that a stranger could repeat at will.
            Refusal::UnknownDevice => debug!(device = %id, "refused: the list has no such device"),
            Refusal::Revoked if lines.is_due(device, Instant::now()) => {
                info!(device = %id, "refused: the device was removed, or its one-time invite was used already");
            }
            Refusal::Expired if lines.is_due(device, Instant::now()) => {
                info!(device = %id, "refused: the invite was not used in time and has expired");
            }
            Refusal::TooManySessions if lines.is_due(device, Instant::now()) => {
                warn!(device = %id, "refused: the gateway has as many sessions as limits.sessions permits");
            }
            Refusal::Draining => debug!(device = %id, "refused: the gateway is draining"),
            Refusal::Revoked | Refusal::Expired | Refusal::TooManySessions => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_types::SecretKey;

    use super::*;

    #[test]
    fn a_device_gets_a_line_in_an_hour() {
        let device = |seed| SecretKey::from_bytes([seed; 32]).public();
        let mut lines = LastLines::default();
        let start = Instant::now();
        assert!(lines.is_due(device(1), start));
        assert!(!lines.is_due(device(1), start + Duration::from_secs(30)));
        assert!(lines.is_due(device(2), start + Duration::from_secs(30)));
        assert!(lines.is_due(device(1), start + AGAIN));
    }
}
