//! Actions of the users, of the network and of the attacker.
use std::collections::VecDeque;

use bytes::Bytes;
use longhaul_protocol::{
    connection::{EarlyData, State},
    streams::Priority,
};

use super::{AGENT, Flying, GATEWAY, World, address};

impl World {
    pub(crate) fn request(&mut self, side: usize, len: usize) {
        let now = self.now;
        let Some(connection) = self.handles[side].and_then(|handle| self.sides[side].connection(handle))
        else {
            return;
        };
        if connection.state() == State::Closed {
            return;
        }
        let Ok(stream) = connection.open(Priority::NORMAL, EarlyData::Allowed) else {
            return;
        };
        connection
            .write(now, stream, Bytes::from(vec![7; len]))
            .expect("room");
        connection.finish(stream).expect("it is open");
        self.opened[side] += 1;
        if side == AGENT {
            self.waits_since.get_or_insert(now);
        }
    }

    /// The attacker delivers the newest datagram of the agent to the gateway first, from its own address.
    pub(crate) fn spoof(&mut self) {
        let Some(newest) = self.ways[GATEWAY].back().cloned() else {
            return;
        };
        self.attackers += 1;
        let from = address(self.attackers);
        self.since = self.now;
        self.arrive(
            GATEWAY,
            Flying {
                address: from,
                answers: false,
                ..newest
            },
        );
    }

    pub(crate) fn move_agent(&mut self, told: bool) {
        self.agent_address += 1;
        self.since = self.now;
        let now = self.now;
        let agent = self.handles[AGENT].and_then(|handle| self.sides[AGENT].connection(handle));
        if let Some(connection) = agent.filter(|_| told) {
            connection.network_changed(now);
        }
    }

    pub(crate) fn close(&mut self, side: usize) {
        let now = self.now;
        if let Some(connection) = self.handles[side].and_then(|handle| self.sides[side].connection(handle)) {
            connection.close(now, 0, "done");
        }
    }

    pub(crate) fn set_link(&mut self, up: bool) {
        if self.up != up {
            self.up = up;
            self.since = self.now;
            if !up {
                self.ways.iter_mut().for_each(VecDeque::clear);
            }
        }
    }
}
