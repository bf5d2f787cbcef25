//! Measurements of a run: counters of the sessions and of the link.
use std::time::Duration;

use longhaul_protocol::{
    endpoint::{EndpointCounters, Event},
    wire::EarlyOutcome,
};

use crate::{application::User, world::World};

impl World {
    /// Stream bytes held by both sides.
    pub(crate) fn buffered(&mut self) -> u64 {
        let held = [&mut self.agent, &mut self.gateway].map(|side| {
            side.stats()
                .map_or(0, |stats| (stats.receive_buffered + stats.send_buffered).bytes())
        });
        held.into_iter().sum()
    }

    /// Stream bytes that the gateway retransmitted, relative to the bytes that it sent.
    pub(crate) fn retransmitted_share(&mut self) -> f64 {
        self.gateway.stats().map_or(0.0, |stats| {
            stats.retransmitted_bytes as f64 / stats.bytes_sent.max(1) as f64
        })
    }

    /// Packets that reached the agent after it had declared them lost, relative to the packets received.
    pub(crate) fn spurious_share(&mut self) -> f64 {
        self.agent.stats().map_or(0.0, |stats| {
            stats.spurious as f64 / stats.packets_received.max(1) as f64
        })
    }

    /// Stream bytes that the gateway retransmitted beyond the bytes that the link lost.
    pub(crate) fn duplicate_bytes(&mut self) -> u64 {
        let lost = self.hop.down().stats().dropped_total().bytes.bytes();
        self.gateway
            .stats()
            .map_or(0, |stats| stats.retransmitted_bytes.saturating_sub(lost))
    }

    /// Time after which a side repeats a lost single packet: SRTT + 4 RTTVAR + 25 ms, where RTTVAR is at most
    /// a quarter of SRTT on a link without jitter.
    pub(crate) fn probe_timeout(&mut self, user: User) -> Duration {
        let side = match user {
            User::Agent => &mut self.agent,
            User::Gateway => &mut self.gateway,
        };
        side.stats()
            .map_or(Duration::ZERO, |stats| stats.srtt * 2 + Duration::from_millis(25))
    }

    /// The agent's operating system reports a new network.
    pub(crate) fn notice_new_network(&mut self) {
        let now = self.now;
        if let Some(connection) = self
            .agent
            .handle
            .and_then(|handle| self.agent.endpoint.connection(handle))
        {
            connection.network_changed(now);
        }
    }

    /// Endpoint counters and datagrams dropped by the session, of gateway and agent.
    pub(crate) fn counters(&mut self) -> [(EndpointCounters, u64); 2] {
        [&mut self.gateway, &mut self.agent].map(|side| {
            let dropped = side.stats().map_or(0, |stats| stats.packets_dropped);
            (side.endpoint.counters(), dropped)
        })
    }

    /// The gateway's decision about the early data; `None` before the RESP.
    pub(crate) fn early_outcome(&self) -> Option<EarlyOutcome> {
        let mut events = self.agent.events.iter();
        events.find_map(|(_, event)| {
            if let Event::Connected { early } = event {
                Some(*early)
            } else {
                None
            }
        })
    }
}
