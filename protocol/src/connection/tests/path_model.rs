//! Model of two connections with two paths, a UDP path and an ordered link (docs/protocol/transport.md sections 7 and 8):
//! stateright visits every order of deliveries, losses, changes of the path and expired timers within the bounds.
//!
//! The states are pairs of real connections, not a description of them: a step of the model calls the connection. Steps
//! other than an expired timer take no time, so that steps which do not influence each other lead to the same state in
//! either order.
mod rules;
mod state;
mod steps;

use stateright::{Checker as _, Model, Property};

use self::state::State;

const AGENT: usize = 0;
const GATEWAY: usize = 1;

/// Bounds of the state space.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Packets of the body from the gateway.
    data: u8,
    /// Packets on the way at the same time.
    packets: usize,
    /// Losses of one packet.
    losses: u8,
    /// Changes of a path: by the agent, or of what works.
    changes: u8,
    /// Expired timers.
    waits: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// A packet arrives over UDP: any one of those on the way, up from the agent (0) or down to it (1).
    Deliver(usize, usize),
    /// A packet is lost on the UDP path.
    Lose(usize, usize),
    /// The next packet arrives over the link.
    DeliverOnLink(usize),
    /// The next timer of either end expires.
    Wait,
    /// The agent changes to its link, and opens one if it has none.
    ToLink,
    /// The agent changes to UDP.
    ToUdp,
    /// The agent finds out whether UDP works.
    ProbeUdp,
    /// The link ends with everything on it.
    EndLink,
    /// UDP loses everything in this direction from now on.
    UdpDies(usize),
}

#[derive(Clone, Debug)]
struct TwoPaths(Bounds);

impl Model for TwoPaths {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.0)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for end in [AGENT, GATEWAY] {
            for index in 0..state.udp[end].len() {
                actions.push(Action::Deliver(end, index));
                if state.left.losses > 0 {
                    actions.push(Action::Lose(end, index));
                }
            }
            if state
                .link
                .as_ref()
                .is_some_and(|link| !link.lanes[end].is_empty())
            {
                actions.push(Action::DeliverOnLink(end));
            }
            if state.left.changes > 0 && state.udp_works[end] {
                actions.push(Action::UdpDies(end));
            }
        }
        if state.left.waits > 0 && !state.is_complete() {
            actions.push(Action::Wait);
        }
        if state.left.changes > 0 {
            let is_on_udp = state.ends[AGENT].path().udp().is_some();
            let change = if is_on_udp { Action::ToLink } else { Action::ToUdp };
            actions.push(change);
            if !is_on_udp {
                actions.push(Action::ProbeUdp);
            }
            if state.link.is_some() {
                actions.push(Action::EndLink);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.apply(&action);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("each byte arrives once and in order", |_, state: &State| {
                state.bytes_are_right()
            }),
            Property::always("a packet counts as lost once", |_, state: &State| {
                state.losses_are_right()
            }),
            Property::always("only the agent's choice moves the gateway", |_, state: &State| {
                state.gateway_follows()
            }),
            Property::always("everything arrives if a path works", |_, state: &State| {
                state.ends_well()
            }),
            Property::sometimes("everything has arrived", |_, state: &State| state.is_complete()),
        ];
        // That the bounds permit what the rules are about.
        let reached = [
            Property::sometimes("the gateway has followed to the link", |_, state: &State| {
                state.ends[GATEWAY].path().udp().is_none()
            }),
            Property::sometimes("the session has returned to UDP", |_, state: &State| {
                state.links > 0 && state.chosen.len() > 2 && state.ends[GATEWAY].path().udp().is_some()
            }),
            Property::sometimes("packets of an abandoned path are lost", |_, state: &State| {
                state.books[GATEWAY].at_change.1 > 0
            }),
        ];
        if self.0.changes > 1 {
            properties.extend(reached);
        }
        properties
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.on_the_way() <= state.left.packets
    }
}

fn check(bounds: Bounds) {
    let checked = TwoPaths(bounds).checker().threads(2).spawn_dfs().join();
    println!(
        "{bounds:?}: {} steps, {} states, at most {} steps deep",
        checked.state_count(),
        checked.unique_state_count(),
        checked.max_depth()
    );
    checked.assert_properties();
}

/// Bounds of the ordinary test run, each with more of one kind of event: packets of the body, packets on the way, losses,
/// changes, timers.
const BOUNDS: &str = "2,6,0,1,0 2,4,1,1,0 1,3,0,2,0 1,3,1,1,1";

#[test]
fn two_paths_deliver_each_byte_once_whatever_happens() {
    let wanted = std::env::var("LONGHAUL_MODEL_BOUNDS").unwrap_or_else(|_| BOUNDS.to_owned());
    for bounds in wanted.split(' ') {
        let numbers: Vec<u8> = bounds
            .split(',')
            .map(|part| part.parse().expect("a number"))
            .collect();
        let &[data, packets, losses, changes, waits] = numbers.as_slice() else {
            panic!("LONGHAUL_MODEL_BOUNDS has five numbers for each run");
        };
        check(Bounds {
            data,
            packets: packets.into(),
            losses,
            changes,
            waits,
        });
    }
}
