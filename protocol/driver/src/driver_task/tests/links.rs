//! An agent's session over a link that leads to the gateway's task.
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use longhaul_protocol::{connection::State, path::Path};
use tokio::time::Instant;

use super::*;
use crate::{
    carrier_choice::LinkCarriers,
    link::{Carrier, LinkAcceptor, LinkEnd},
    session::{GatewayAddresses, NetworkChange},
    udp_return::ReturnTimes,
};

/// A carrier without a network.
#[derive(Debug)]
struct Wire {
    gateway: LinkAcceptor,
    /// Number of links that were opened.
    opened: AtomicU32,
    /// Links that deliver nothing at present, like TCP in an outage: one bit for each, the first one is the lowest.
    muted: watch::Receiver<u32>,
}

impl Carrier for Wire {
    fn class(&self) -> PathClass {
        PathClass::Ordered
    }

    fn run(&self, mut end: LinkEnd) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let acceptor = self.gateway.clone();
        let bit = 1 << self.opened.fetch_add(1, Ordering::Relaxed);
        let mut muted = self.muted.clone();
        Box::pin(async move {
            let peer = (Ipv4Addr::LOCALHOST, 443).into();
            let Ok(mut there) = acceptor.open(peer, PathClass::Ordered) else {
                return;
            };
            end.input.connected(peer);
            loop {
                let (packet, is_ours) = tokio::select! {
                    packet = end.output.next() => (packet, true),
                    packet = there.output.next() => (packet, false),
                };
                let Some(packet) = packet else { return };
                if muted.wait_for(|muted| muted & bit == 0).await.is_err() {
                    return;
                }
                let (output, input) = if is_ours {
                    (&end.output, &there.input)
                } else {
                    (&there.output, &end.input)
                };
                output.written(packet.len());
                if input.deliver(packet).await.is_err() {
                    return;
                }
            }
        })
    }
}

impl Pair {
    fn over_links() -> Self {
        Self::with_link(CarrierPlan::Links)
    }

    fn with_link(plan: impl FnOnce(LinkCarriers, ReturnTimes) -> CarrierPlan) -> Self {
        Self::with_links(plan).0
    }

    /// The same, and which of its links are muted.
    pub(super) fn with_links(
        plan: impl FnOnce(LinkCarriers, ReturnTimes) -> CarrierPlan,
    ) -> (Self, watch::Sender<u32>) {
        let (mute, muted) = watch::channel(0);
        let pair = Self::over(SegmentationOffload::Off, |gateway| {
            let wire = Arc::new(Wire {
                gateway: gateway.acceptor(),
                opened: AtomicU32::new(0),
                muted,
            });
            plan(LinkCarriers::new(wire), ReturnTimes::default())
        });
        (pair, mute)
    }

    /// Runs both tasks until the agent's one is in this state of affairs.
    pub(super) async fn run_until(&mut self, is_done: impl Fn(&DriverTask) -> bool) {
        for _ in 0..2000 {
            for task in [&mut self.agent, &mut self.gateway] {
                if let Ok(event) = task.links.events.try_recv() {
                    task.handle_link_events(event);
                }
            }
            self.step().await;
            // Its events are handled by then.
            self.agent.turn();
            if is_done(&self.agent) {
                return;
            }
        }
        panic!("it is not done: {:?}", path(&self.agent));
    }

    pub(super) fn handle(&self) -> ConnectionHandle {
        *self.agent.channels.keys().next().unwrap()
    }

    pub(super) fn command(&mut self, what: ConnectionCommand) {
        let connection = self.handle();
        self.agent.handle_command(Command { connection, what });
    }
}

pub(super) fn is_open(task: &DriverTask) -> bool {
    let handle = task.channels.keys().next().unwrap();
    task.endpoint
        .peek(*handle)
        .is_some_and(|connection| connection.state() == State::Open)
}

pub(super) fn path(task: &DriverTask) -> Option<Path> {
    let handle = task.channels.keys().next()?;
    task.endpoint.peek(*handle).map(|connection| connection.path())
}

/// A full uplink makes UDP silent for long enough to open the link, and then UDP answers.
#[tokio::test]
async fn a_link_that_is_open_after_udp_has_answered_is_followed_by_a_pause() {
    let mut pair = Pair::with_link(CarrierPlan::UdpThen);
    pair.run_until(is_open).await;
    let handle = pair.handle();
    let agent = &mut pair.agent;
    let choice = agent.choice.as_mut().unwrap();
    let started = agent.clock.now();
    assert!(choice.doubts.begins(started, true));
    choice.doubts.on_silence();
    let link = agent.links.dial(&choice.next_carrier());
    agent.endpoint.open_link(link, choice.remote, false);
    choice.began(Instant::now(), started, link);
    let connection = agent.endpoint.connection(handle).unwrap();
    connection.path_refreshed(started);
    let heard = |task: &DriverTask| task.endpoint.peek(handle).unwrap().last_received_at();
    while heard(&pair.agent) <= started {
        pair.step().await;
    }
    pair.run_until(|task| task.choice.as_ref().is_some_and(|choice| choice.link.is_none()))
        .await;
    assert!(path(&pair.agent).is_some_and(|path| path.udp().is_some()));
    let now = pair.agent.clock.now();
    let doubts = &mut pair.agent.choice.as_mut().unwrap().doubts;
    assert!(!doubts.begins(now, true), "the next attempt waits");
    assert!(doubts.begins(now + Duration::from_secs(10), true));
}

#[tokio::test]
async fn a_session_that_began_over_links_alone_tries_udp_in_another_network() {
    let mut pair = Pair::over_links();
    pair.run_until(is_open).await;
    let udp = pair.gateway.sockets.local_addr();
    let addresses = |udp| ConnectionCommand::UseAddresses(GatewayAddresses { udp, carriers: None });
    pair.command(addresses(Vec::new()));
    pair.command(ConnectionCommand::NetworkChanged(NetworkChange::Other(None)));
    let due = |pair: &Pair| pair.agent.choice.as_ref().unwrap().udp_return.due();
    assert_eq!(due(&pair), None, "it may not use UDP");
    pair.command(addresses(vec![udp]));
    pair.command(ConnectionCommand::NetworkChanged(NetworkChange::Same));
    let soon = ReturnTimes::default().first / 10;
    let due = due(&pair).unwrap();
    assert!(due <= Instant::now() + soon, "{due:?}");
    // UDP answers, so that the session returns to it.
    pair.agent.run_udp_return(due);
    pair.run_until(|task| path(task).is_some_and(|path| path.udp() == Some(udp)))
        .await;
}

/// The command is handled between the gateway's answer and the event of the open session.
#[tokio::test]
async fn udp_is_probed_soon_after_a_change_of_the_network_during_the_handshake() {
    let mut pair = Pair::with_link(CarrierPlan::LinksThenUdp);
    let handle = pair.handle();
    let is_answered = |task: &DriverTask| {
        let connection = task.endpoint.peek(handle);
        connection.is_some_and(|connection| connection.state() == State::Open)
    };
    while !is_answered(&pair.agent) {
        pair.agent.turn();
        pair.gateway.turn();
        // The link's task runs.
        tokio::task::yield_now().await;
        for task in [&mut pair.agent, &mut pair.gateway] {
            if let Ok(event) = task.links.events.try_recv() {
                task.handle_link_events(event);
            }
        }
    }
    let due = |pair: &Pair| pair.agent.choice.as_ref().unwrap().udp_return.due();
    assert_eq!(due(&pair), None, "the event waits");
    pair.command(ConnectionCommand::NetworkChanged(NetworkChange::Other(None)));
    pair.agent.turn();
    let soon = ReturnTimes::default().first / 10;
    let due = due(&pair).unwrap();
    assert!(due <= Instant::now() + soon, "{due:?}");
}

#[tokio::test]
async fn a_session_whose_only_link_has_ended_goes_on_over_udp_at_once() {
    let mut pair = Pair::over_links();
    pair.run_until(is_open).await;
    let udp = pair.gateway.sockets.local_addr();
    let Some(Path::Link(link)) = path(&pair.agent) else {
        panic!("the session uses its link");
    };
    pair.agent.links.close(link);
    pair.command(ConnectionCommand::UseAddresses(GatewayAddresses {
        udp: vec![udp],
        carriers: None,
    }));
    assert_eq!(path(&pair.agent).and_then(Path::udp), Some(udp));
}
