//! Endpoints of an agent and a gateway at the two ends of a modelled hop, in virtual time.
mod checks;
mod traffic;

use std::{collections::VecDeque, net::SocketAddr, rc::Rc, time::Duration};

use longhaul_netem::{ClientAddress, Hop, HopConfig};
use longhaul_protocol::{
    connection::TransportConfig,
    crypto::{EpochKeys, ResetKey},
    endpoint::{AgentEndpointConfig, ConnectTo, DeviceStatus, Endpoint, GatewayEndpointConfig},
};
use longhaul_types::{LinkProfile, PublicKey, SecretKey, Timestamp, UnixTime};

pub(crate) use traffic::client_socket;

use crate::{
    amplification::Amplification,
    application::{Application, User},
    datagram::{Datagram, Fate, TraceHash},
    plan::Exchange,
    random::Random,
    side::{Bounds, Side},
};

/// Wall-clock time at the simulation's time zero.
const UNIX_AT_ZERO: UnixTime = UnixTime::new(Duration::from_secs(1_800_000_000));
/// Maximum turns without progress of time; more indicate an endless loop.
const MAX_TURNS: u32 = 20_000;
/// The application's purpose of random numbers for stream keys.
const PURPOSE_KEYS: u64 = 1;

/// First byte of a RESET (transport.md section 1).
const RESET: u8 = 0x04;

/// Parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) hop: HopConfig,
    /// Link profile that the agent is configured with.
    pub(crate) profile: Option<LinkProfile>,
    pub(crate) plan: Vec<Exchange>,
    pub(crate) token: GivenToken,
    pub(crate) moves: Moves,
    pub(crate) seed: u64,
}

/// Report of an address change by the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moves {
    /// A new network, which the operating system reports.
    Told,
    /// A NAT that lost its state, which is not reported.
    Silent,
}

/// The agent's token, which allows early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenToken {
    Valid,
    /// A token of an older epoch of the gateway: the address is validated, but early data is rejected.
    OldEpoch,
    None,
}

/// A datagram that an endpoint sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Timestamp,
    pub(crate) from: User,
    /// Length with IP and UDP headers.
    pub(crate) len: u64,
}

/// Called for each datagram before it enters the link, with the side, the number of the datagram of that side
/// (from 0) and its bytes; returns its fate.
pub(crate) type Censor = Box<dyn FnMut(User, usize, &[u8]) -> Fate>;

/// A source of forged datagrams.
pub(crate) trait Attacker {
    /// Time of the next datagrams.
    fn next(&self) -> Option<Timestamp>;
    /// Datagrams to send now: receiver, source address, bytes.
    fn strike(&mut self, now: Timestamp) -> Vec<(User, SocketAddr, Vec<u8>)>;
    /// Shows the attacker a datagram on the wire.
    fn overhear(&mut self, now: Timestamp, from: User, datagram: &[u8]);
}

/// The complete system.
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) hop: Hop<Datagram>,
    pub(crate) agent: Side,
    pub(crate) gateway: Side,
    pub(crate) sent: Vec<Sent>,
    pub(crate) hash: TraceHash,
    pub(crate) censor: Option<Censor>,
    /// Interval at which the agent's driver or radio delivers what has arrived.
    pub(crate) bunching: Option<Duration>,
    /// Datagrams that wait for the end of this interval.
    bunched: VecDeque<(Timestamp, Datagram)>,
    pub(crate) attacker: Option<Box<dyn Attacker>>,
    /// Number of datagrams that the attacker sent.
    pub(crate) injected: u64,
    /// Until this time the gateway is down and receives nothing.
    gateway_back: Timestamp,
    /// Configuration that the gateway keeps on disk, and the device that it knows.
    gateway_state: (GatewayEndpointConfig, PublicKey),
    /// Limits of agent and gateway.
    bounds: [Bounds; 2],
    gateway_address: SocketAddr,
    address: ClientAddress,
    amplification: Amplification,
    moves: Moves,
    turns: u32,
    /// Total number of turns.
    steps: u64,
    trace: bool,
}

impl World {
    /// Address of the gateway.
    pub(crate) const GATEWAY: ([u8; 4], u16) = ([198, 51, 100, 1], 443);

    /// Both endpoints with a session that is not started; the exchanges of time zero are written.
    pub(crate) fn new(setting: Setting) -> Self {
        Self::with_transport(setting, |_| {})
    }

    /// As [`World::new`], with changes of the transport configuration.
    pub(crate) fn with_transport(setting: Setting, configure: impl Fn(&mut TransportConfig)) -> Self {
        Self::with_transports(setting, &configure, &configure)
    }

    /// As [`World::new`], with changes of the transport configurations of agent and gateway.
    pub(crate) fn with_transports(
        setting: Setting,
        configure_agent: impl Fn(&mut TransportConfig),
        configure_gateway: impl Fn(&mut TransportConfig),
    ) -> Self {
        let mut keys = Random::new(setting.seed, PURPOSE_KEYS);
        let plan: Rc<[Exchange]> = setting.plan.into();
        let salt = setting.seed.wrapping_mul(0x1234_5678_9abc_def1);
        let device = SecretKey::from_bytes(keys.key());
        let gateway_secret = SecretKey::from_bytes(keys.key());
        let epoch = EpochKeys {
            epoch: 5,
            key: keys.key(),
        };
        let old_epoch = EpochKeys {
            epoch: 4,
            key: epoch.key,
        };
        let expiry = UNIX_AT_ZERO + Duration::from_secs(1_000_000);
        let token = match setting.token {
            GivenToken::Valid => Some(epoch.mint(&device.public(), [1, 2, 3, 4], expiry)),
            GivenToken::OldEpoch => Some(old_epoch.mint(&device.public(), [1, 2, 3, 4], expiry)),
            GivenToken::None => None,
        };
        let mut agent_transport = TransportConfig::agent(setting.profile);
        configure_agent(&mut agent_transport);
        let mut gateway_transport = TransportConfig::gateway();
        configure_gateway(&mut gateway_transport);
        let bounds = [Bounds::of(&agent_transport), Bounds::of(&gateway_transport)];
        let agent_config = AgentEndpointConfig {
            secret: device.clone(),
            transport: agent_transport,
        };
        let mut agent = Endpoint::agent(agent_config, UNIX_AT_ZERO, keys.key());
        let gateway_config = GatewayEndpointConfig {
            secret: gateway_secret.clone(),
            epoch,
            reset_key: ResetKey::new(keys.key()),
            transport: gateway_transport,
            max_sessions: 4,
        };
        let gateway_state = (gateway_config, device.public());
        let gateway = started(Timestamp::ZERO, &gateway_state, keys.key());
        let gateway_address = SocketAddr::from(Self::GATEWAY);
        let to = ConnectTo {
            gateway: gateway_secret.public(),
            remote: gateway_address.into(),
            token,
            profile: setting.profile,
            last_stamp: None,
        };
        let handle = agent.connect(Timestamp::ZERO, to).expect("the first session");
        let mut agent = Side::new(agent, Application::new(User::Agent, plan.clone(), salt));
        agent.handle = Some(handle);
        let round_trip = setting.hop.up.delay + setting.hop.down.delay;
        let validated = (setting.token != GivenToken::None).then(ClientAddress::default);
        let mut world = Self {
            amplification: Amplification::new(round_trip, validated),
            now: Timestamp::ZERO,
            hop: Hop::new(setting.hop, setting.seed),
            agent,
            gateway: Side::new(gateway, Application::new(User::Gateway, plan, salt)),
            sent: Vec::new(),
            hash: TraceHash::default(),
            censor: None,
            bunching: None,
            bunched: VecDeque::new(),
            attacker: None,
            injected: 0,
            gateway_back: Timestamp::ZERO,
            gateway_state,
            bounds,
            gateway_address,
            address: ClientAddress::default(),
            moves: setting.moves,
            turns: 0,
            steps: 0,
            trace: std::env::var_os("LONGHAUL_SIM_TRACE").is_some(),
        };
        world.agent.use_connection(Timestamp::ZERO, &mut world.hash);
        world.agent.endpoint.start(handle);
        world
    }

    /// Kills the gateway and restarts it after `away` with the same configuration and without its sessions.
    pub(crate) fn restart_gateway(&mut self, away: Duration) {
        self.gateway_back = self.now + away;
        let endpoint = started(self.now, &self.gateway_state, [77; 32]);
        let nothing: Rc<[Exchange]> = Rc::new([]);
        self.gateway = Side::new(endpoint, Application::new(User::Gateway, nothing, 0));
    }

    /// Runs until `until` returns true or nothing more happens before `limit`; returns the last result of
    /// `until`.
    pub(crate) fn run(&mut self, limit: Timestamp, mut until: impl FnMut(&Self) -> bool) -> bool {
        loop {
            self.turn();
            if until(self) {
                return true;
            }
            let Some(next) = self.next_event().filter(|next| *next <= limit) else {
                self.now = self.now.max(limit);
                return false;
            };
            if next > self.now {
                self.now = next;
                self.turns = 0;
            }
        }
    }

    /// Runs until all exchanges are complete.
    ///
    /// # Panics
    /// If they are not complete by `limit`, or a side has no timer.
    pub(crate) fn run_to_completion(&mut self, limit: Timestamp) {
        let done = self.run(limit, |world| {
            let done = world.is_done();
            if !done {
                world.check_timers();
            }
            done
        });
        assert!(done, "not done by {:?}: {}", limit, self.describe());
    }

    pub(crate) fn is_done(&self) -> bool {
        self.agent.application.is_done() && self.gateway.application.is_done()
    }

    /// Closes the session at the agent; both sides must become silent.
    pub(crate) fn close(&mut self) {
        let handle = self.agent.handle.expect("the agent has a session");
        let now = self.now;
        if let Some(connection) = self.agent.endpoint.connection(handle) {
            connection.close(now, 0, "done");
        }
        self.run(now + Duration::from_secs(600), |_| false);
        assert!(self.agent.closed.is_some(), "the agent closed and got no event");
        assert!(
            self.agent.sent_after_close <= 4,
            "{} datagrams after CLOSE",
            self.agent.sent_after_close
        );
        assert_eq!(
            self.gateway.sent_after_close, 0,
            "the gateway responded to a CLOSE"
        );
    }

    fn next_event(&self) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        let mut consider = |at: Option<Timestamp>| next = next.into_iter().chain(at).min();
        consider(self.hop.next_event());
        consider(self.bunched.front().map(|(at, _)| *at));
        consider(self.attacker.as_ref().and_then(|attacker| attacker.next()));
        for side in [&self.agent, &self.gateway] {
            consider(side.endpoint.poll_timeout());
            if side.handle.is_some() && side.closed.is_none() {
                consider(side.application.next_action());
            }
        }
        next
    }

    /// Handles everything that is due now.
    fn turn(&mut self) {
        self.turns += 1;
        assert!(
            self.turns < MAX_TURNS,
            "endless loop: agent's timer {:?}, gateway's {:?}, hop {:?}; {}",
            self.agent.endpoint.poll_timeout(),
            self.gateway.endpoint.poll_timeout(),
            self.hop.next_event(),
            self.describe()
        );
        self.deliver();
        let now = self.now;
        for user in [User::Agent, User::Gateway] {
            let hash = &mut self.hash;
            let side = match user {
                User::Agent => &mut self.agent,
                User::Gateway => &mut self.gateway,
            };
            if side.endpoint.poll_timeout().is_some_and(|at| at <= now) {
                side.endpoint.handle_timeout(now);
            }
            side.use_connection(now, hash);
            self.transmit(user);
        }
        self.watch_memory();
        self.mind_address();
    }

    /// Reports a new network to the agent's transport, as the driver does.
    fn mind_address(&mut self) {
        let address = self.hop.client_address(self.now);
        if std::mem::replace(&mut self.address, address) != address && self.moves == Moves::Told {
            self.notice_new_network();
        }
    }

    fn note(&self, what: &str, datagram: &[u8]) {
        if self.trace {
            crate::report::trace(self.now, what, datagram);
        }
    }
}

/// The endpoint of a gateway that has just started.
fn started(now: Timestamp, state: &(GatewayEndpointConfig, PublicKey), seed: [u8; 32]) -> Endpoint {
    let mut gateway = Endpoint::gateway(state.0.clone(), UNIX_AT_ZERO, seed);
    gateway.set_devices(now, [(state.1, DeviceStatus::Admitted)].into());
    gateway
}
