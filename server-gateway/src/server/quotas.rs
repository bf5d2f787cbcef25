//! Enforcement of quotas, about twice a second.
use longhaul_gateway_core::{
    admin::{device_usage::Month, metrics::LinkBytes},
    gateway::Gateway,
    quota::reached::{Holder, Reached},
    quota_limits::QuotaDefaults,
};

use std::time::SystemTime;

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
        let reached = reached.map(|month| Reached::new(Holder::Device, name, month, Month::of(now).end()));
        state.note(&open.device, open.in_month, reached);
    }
    for client in gateway.quotas.clients() {
        // Counts nothing: a quota may have changed, or a month may have begun.
        let _reached = gateway.count_client(&client, LinkBytes::default());
    }
}
