//! Two driver tasks on real sockets, whose turns the test runs.
mod links;
mod succession;

use std::{net::Ipv4Addr, time::Duration};

use bytes::Bytes;
use longhaul_protocol::{
    connection::{EarlyData, TransportConfig},
    crypto::{EpochKeys, ResetKey},
    endpoint::{AgentEndpointConfig, ConnectTo, GatewayEndpointConfig},
    path::PathClass,
    streams::Priority,
};
use longhaul_types::{SecretKey, UnixTime};

use super::*;
use crate::{
    carrier_choice::CarrierPlan,
    command::{Command, ConnectionCommand},
    dial::Alternatives,
    session::{End, OpenOptions},
    socket::SegmentationOffload,
};

struct Pair {
    agent: DriverTask,
    gateway: DriverTask,
    session: Session,
    accepted: mpsc::Receiver<Incoming>,
    control: [mpsc::Sender<Control>; 2],
}

impl Pair {
    fn new(offload: SegmentationOffload) -> Self {
        Self::over(offload, |_| CarrierPlan::Udp)
    }

    /// The agent's carriers follow from the gateway's task.
    fn over(offload: SegmentationOffload, plan: impl FnOnce(&DriverTask) -> CarrierPlan) -> Self {
        let (secret, device) = (SecretKey::from_bytes([1; 32]), SecretKey::from_bytes([2; 32]));
        let epoch = EpochKeys {
            epoch: 1,
            key: [5; 32],
        };
        let far = UnixTime::new(Duration::from_secs(4_000_000_000));
        let token = epoch.mint(&device.public(), [1; 4], far);
        let bind = || crate::socket::SessionSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), offload).unwrap();
        let clock = Clock::start();
        let config = GatewayEndpointConfig {
            secret: secret.clone(),
            epoch,
            reset_key: ResetKey::new([6; 32]),
            transport: TransportConfig::gateway(),
            max_sessions: 4,
        };
        let mut endpoint = Endpoint::gateway(config, clock.unix_at_origin(), [7; 32]);
        let devices = BTreeMap::from([(device.public(), DeviceStatus::Admitted)]);
        endpoint.set_devices(clock.now(), devices);
        let (incoming, accepted) = mpsc::channel(4);
        let (gateway_control, control) = mpsc::channel(1);
        let (counters, _) = watch::channel(endpoint.counters());
        let gateway = DriverTask::new(endpoint, bind(), clock, Some(incoming), control, counters);
        let clock = Clock::start();
        let config = AgentEndpointConfig {
            secret: device,
            transport: TransportConfig::agent(None),
        };
        let endpoint = Endpoint::agent(config, clock.unix_at_origin(), [8; 32]);
        let udp = gateway.sockets.local_addr();
        let to = ConnectTo {
            gateway: secret.public(),
            remote: udp.into(),
            token: Some(token),
            profile: None,
            last_stamp: None,
        };
        let (agent_control, control) = mpsc::channel(1);
        let (counters, _) = watch::channel(endpoint.counters());
        let mut agent = DriverTask::new(endpoint, bind(), clock, None, control, counters);
        let handle = agent
            .connect(to, udp, &Alternatives::default(), plan(&gateway))
            .unwrap();
        let session = agent.add_connection(handle, LinkState::Connecting);
        agent.endpoint.start(handle);
        Self {
            agent,
            gateway,
            session,
            accepted,
            control: [gateway_control, agent_control],
        }
    }

    /// One turn of each task, then a wait for datagrams or a timer.
    async fn step(&mut self) {
        let more = self.agent.turn() | self.gateway.turn();
        // A timer of one task may expire before a datagram arrives.
        let wait = Duration::from_millis(u64::from(!more));
        let arrival = async {
            tokio::select! {
                _result = self.agent.sockets.readable() => {}
                _result = self.gateway.sockets.readable() => {}
            }
        };
        let _due = tokio::time::timeout(wait, arrival).await;
        self.agent.receive(0);
        self.gateway.receive(0);
    }

    /// Transfers `body` from the gateway to the agent.
    async fn transfer(&mut self, body: &Bytes) {
        let session = loop {
            self.step().await;
            if let Ok(incoming) = self.accepted.try_recv() {
                break incoming.session;
            }
        };
        let handle = *self.gateway.channels.keys().next().unwrap();
        let (endpoint, channels, clock) = self.gateway.parts(handle).unwrap();
        let options = OpenOptions {
            class: Priority::NORMAL,
            early: EarlyData::Forbidden,
            total: Some(body.len() as u64),
        };
        let connection = endpoint.connection(handle).unwrap();
        let stream = channels
            .open_now(clock.now(), connection, options, body.clone(), End::Finish)
            .unwrap();
        let agent = self.session.clone();
        let mut reader = tokio::spawn(async move {
            let mut stream = agent.accept().await.unwrap();
            let mut bytes = Vec::new();
            while let Some(chunk) = stream.read().await.unwrap() {
                bytes.extend_from_slice(&chunk);
            }
            bytes
        });
        let bytes = loop {
            tokio::select! {
                biased;
                bytes = &mut reader => break bytes.unwrap(),
                () = self.step() => {}
            }
            // The agent's requests for more data arrive through the channel that its task would read.
            while let Ok(command) = self.agent.commands.unlimited.try_recv() {
                self.agent.handle_commands(command);
            }
        };
        assert!(bytes == *body, "the bytes changed");
        drop((stream, session));
    }
}

fn body() -> Bytes {
    (0..500_000_u32).flat_map(u32::to_le_bytes).collect()
}

#[tokio::test]
async fn a_transfer_needs_fewer_calls_than_datagrams() {
    let mut pair = Pair::new(SegmentationOffload::WherePossible);
    pair.transfer(&body()).await;
    let counters = pair.gateway.sockets.counters();
    assert!(counters.sent > 1000, "{counters:?}");
    let path = pair.gateway.sockets.local_addr().into();
    if pair.gateway.sockets.max_segments(path) > 1 {
        assert!(counters.send_calls * 2 < counters.sent, "{counters:?}");
    } else {
        eprintln!("no segmentation offload in this kernel: the number of calls is not tested");
    }
}

#[tokio::test]
async fn without_offload_the_same_bytes_arrive() {
    let mut pair = Pair::new(SegmentationOffload::Off);
    pair.transfer(&body()).await;
    let counters = pair.gateway.sockets.counters();
    assert_eq!(counters.send_calls, counters.sent);
}

#[tokio::test]
async fn a_flood_of_datagrams_delays_neither_the_owner_nor_users_nor_links() {
    let mut pair = Pair::new(SegmentationOffload::Off);
    let agent = &mut pair.agent;
    let flood = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = agent.sockets.local_addr();
    for _ in 0..100 {
        flood.send_to(&[0; 8], to).unwrap();
    }
    agent.sockets.readable().await.unwrap();
    let (reply, mut to_owner) = oneshot::channel();
    pair.control[1].try_send(Control::LivenessProbe(reply)).unwrap();
    let (reply, mut to_user) = oneshot::channel();
    let handle = *agent.channels.keys().next().unwrap();
    let commands = agent.commands.commands(handle);
    commands.send_at_once(ConnectionCommand::LivenessProbe(reply));
    // A link that ends at once.
    drop(agent.acceptor().open(to, PathClass::Ordered).unwrap());
    agent.wait(false).await;
    assert!(to_owner.try_recv().is_ok(), "the owner has an answer");
    assert!(to_user.try_recv().is_ok(), "the user has an answer");
    assert!(agent.links.events.try_recv().is_err(), "the link was looked at");
    let left = tokio::time::timeout(Duration::from_secs(5), agent.sockets.readable()).await;
    assert!(left.is_ok(), "the flood goes on");
}
