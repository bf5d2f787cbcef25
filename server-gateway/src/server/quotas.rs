//! Enforcement of quotas, about twice a second.
use std::time::SystemTime;

use longhaul_types::{ByteCount, DeviceId, PublicKey};
use tracing::{info, warn};

use crate::{
    admin::device_usage::Month,
    gateway::Gateway,
    quota::{
        limits::QuotaDefaults,
        reached::{QuotaState, Reached},
    },
};

/// Paces each session to the rate of its device, and notes whose bytes of the month are used up.
pub(super) fn enforce(gateway: &Gateway) {
    let now = SystemTime::now();
    let defaults = gateway.rules.load().quota;
    for open in gateway.ledger.open_sessions() {
        let (name, QuotaDefaults { rate, month }) = gateway.quotas.of(&open.device, defaults);
        let state = gateway.quotas.state(open.device);
        if state.replace_rate(open.number, rate) {
            open.session.limit_rate(rate);
        }
        let reached = month.filter(|month| open.in_month >= month.bytes());
        let reached = reached.map(|month| Reached::new(name, month, Month::of(now).end()));
        note(&state, &open.device, open.in_month, reached);
    }
}

fn note(state: &QuotaState, device: &PublicKey, in_month: u64, reached: Option<Reached>) {
    let device = DeviceId::of(device);
    match (state.set(reached), state.reached()) {
        (true, Some(reached)) => warn!(
            %device,
            name = reached.name(),
            transferred = %ByteCount::new(in_month),
            "{reached}: its downloads and tunnels end, and new ones are refused"
        ),
        (true, None) => {
            info!(%device, "a device may transfer again: its quota was raised, or a month has begun")
        }
        (false, _) => {}
    }
}
