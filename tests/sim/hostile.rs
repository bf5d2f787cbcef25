//! Datagrams of an attacker, 100,000 per second at each end, during a download.
use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use longhaul_netem::HopConfig;
use longhaul_protocol::crypto::Mac1Key;
use longhaul_types::{PublicKey, Timestamp};

use crate::{
    application::User,
    links::{self, Knowledge},
    plan::Exchange,
    random::Random,
    report::Table,
    world::{Attacker, GivenToken, Moves, Setting, World},
};

const PURPOSE_ATTACK: u64 = 20;
/// Datagrams of the attacker to each end at a time.
const VOLLEY: usize = 10;
/// Interval for 100,000 datagrams per second to each end.
const INTERVAL: Duration = Duration::from_micros(100);
/// Delay of the attacker's copies after the originals.
const LAG: Duration = Duration::from_millis(150);
/// Number of overheard datagrams kept for replay.
const OVERHEARD: usize = 64;

/// Kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Random bytes of random length.
    Garbage,
    /// Truncated copies of genuine datagrams.
    Truncated,
    /// Copies of genuine datagrams, from the genuine address and from others.
    Replayed,
    /// Copies of genuine datagrams with one flipped bit: index and number are valid.
    Forged,
    /// INITs with a valid mac1 and a random handshake message.
    ForgedInit,
}

const KINDS: [Kind; 5] = [
    Kind::Garbage,
    Kind::Truncated,
    Kind::Replayed,
    Kind::Forged,
    Kind::ForgedInit,
];

struct Flood {
    kind: Kind,
    random: Random,
    next: Timestamp,
    until: Timestamp,
    gateway: PublicKey,
    from_agent: VecDeque<(Timestamp, Vec<u8>)>,
    from_gateway: VecDeque<(Timestamp, Vec<u8>)>,
}

impl Flood {
    fn datagram(&mut self, victim: User) -> Option<Vec<u8>> {
        let overheard = match victim {
            User::Agent => &self.from_gateway,
            User::Gateway => &self.from_agent,
        };
        // An attacker that is faster than the path could also delay the originals; this attacker is not on
        // the path.
        let old = overheard.partition_point(|(at, _)| *at + LAG <= self.next);
        let pick = usize::try_from(self.random.below(old as u64)).unwrap_or(0);
        let overheard = overheard.iter().map(|(_, datagram)| datagram).take(old);
        let mut datagram = match self.kind {
            Kind::Garbage => {
                let length = usize::try_from(self.random.below(1400)).unwrap_or(0);
                let mut garbage = vec![0; length];
                self.random.fill(&mut garbage);
                // Half of them have a valid first byte.
                if let Some(first) = garbage.first_mut().filter(|first| **first & 1 == 0) {
                    *first = [0x01, 0x02, 0x03, 0x04, 0x80, 0xa0, 0x90][usize::from(*first) % 7];
                }
                return Some(garbage);
            }
            Kind::ForgedInit => return Some(self.forged_init()),
            Kind::Truncated | Kind::Replayed | Kind::Forged => { overheard }.nth(pick)?.clone(),
        };
        let at = usize::try_from(self.random.below(datagram.len() as u64)).unwrap_or(0);
        match self.kind {
            Kind::Truncated => datagram.truncate(at),
            Kind::Forged => datagram[at] ^= 1 << self.random.below(8),
            Kind::Replayed | Kind::Garbage | Kind::ForgedInit => {}
        }
        Some(datagram)
    }

    /// An INIT without a token: header, Noise message, mac1.
    fn forged_init(&mut self) -> Vec<u8> {
        let mut init = vec![0x01, 1, 0, 7];
        let mut noise = vec![0; 200];
        self.random.fill(&mut noise);
        init.extend_from_slice(&noise);
        let mac1 = Mac1Key::new(&self.gateway).tag(&init);
        init.extend_from_slice(&mac1);
        init
    }

    fn source(&mut self) -> SocketAddr {
        if self.random.one_in(2) {
            return crate::world::client_socket(longhaul_netem::ClientAddress(0));
        }
        let host = u8::try_from(self.random.below(256)).unwrap_or(0);
        SocketAddr::from(([203, 0, 113, host], 9))
    }
}

impl Attacker for Flood {
    fn next(&self) -> Option<Timestamp> {
        (self.next < self.until).then_some(self.next)
    }

    fn strike(&mut self, now: Timestamp) -> Vec<(User, SocketAddr, Vec<u8>)> {
        self.next = now + INTERVAL;
        let mut strikes = Vec::with_capacity(2 * VOLLEY);
        for victim in [User::Agent, User::Gateway] {
            for _ in 0..VOLLEY {
                let Some(datagram) = self.datagram(victim) else {
                    continue;
                };
                let from = match victim {
                    User::Agent => World::GATEWAY.into(),
                    User::Gateway => self.source(),
                };
                strikes.push((victim, from, datagram));
            }
        }
        strikes
    }

    fn overhear(&mut self, now: Timestamp, from: User, datagram: &[u8]) {
        let kept = match from {
            User::Agent => &mut self.from_agent,
            User::Gateway => &mut self.from_gateway,
        };
        kept.push_back((now, datagram.to_vec()));
        if kept.len() > OVERHEARD {
            // The first ones are kept, because replays of the handshake matter most.
            kept.remove(8);
        }
    }
}

#[test]
fn flood_of_100_000_datagrams_a_second() {
    const COLUMNS: [&str; 6] = [
        "kind",
        "injected",
        "gateway's counters",
        "dropped in the session",
        "agent's counters",
        "dropped in the session",
    ];
    let profile = links::named("lte");
    let mut table = Table::new("flood at both ends during a download of 1 MB over lte", &COLUMNS);
    for kind in KINDS {
        let plan = vec![
            Exchange::fetch(Duration::ZERO, 1_000_000),
            Exchange::fetch(Duration::from_millis(300), 5_000),
        ];
        let setting = Setting {
            hop: HopConfig::from(profile),
            profile: Knowledge::Known.of(profile),
            plan,
            token: GivenToken::Valid,
            moves: Moves::Silent,
            seed: 5,
        };
        let mut quiet = World::new(setting.clone());
        quiet.run_to_completion(Timestamp::ZERO + Duration::from_secs(30));
        let mut world = World::new(setting);
        let gateway = world.gateway.endpoint.public_key();
        world.attacker = Some(Box::new(Flood {
            kind,
            random: Random::new(5, PURPOSE_ATTACK),
            // The attack begins when the session is open; otherwise the first forged RESP would win or lose a
            // race.
            next: Timestamp::ZERO + Duration::from_millis(1),
            until: Timestamp::ZERO + Duration::from_millis(900),
            gateway,
            from_agent: VecDeque::new(),
            from_gateway: VecDeque::new(),
        }));
        world.run_to_completion(Timestamp::ZERO + Duration::from_secs(30));
        let (took, undisturbed) = (world.now - Timestamp::ZERO, quiet.now - Timestamp::ZERO);
        assert!(
            took <= undisturbed * 2,
            "{kind:?}: {took:?}, without the flood {undisturbed:?}"
        );
        let [gateway, agent] = world.counters();
        table.row(&[
            format!("{kind:?}"),
            world.injected.to_string(),
            format!("{:?}", gateway.0),
            gateway.1.to_string(),
            format!("{:?}", agent.0),
            agent.1.to_string(),
        ]);
        for (user, counters, in_session) in [("gateway", gateway.0, gateway.1), ("agent", agent.0, agent.1)] {
            let dropped = counters.malformed
                + counters.bad_mac1
                + counters.rate_limited
                + counters.bad_handshake
                + counters.unknown_session
                + counters.unexpected
                + counters.repeated
                + in_session;
            // A flipped bit may leave a datagram valid (except in the flag byte of a token), and a copy that
            // arrives before the original takes its place.
            let injected = world.injected / 2;
            assert!(
                dropped * 100 >= injected * 95,
                "{kind:?}: the {user} counted {dropped} of {injected} dropped"
            );
        }
        assert_eq!(
            world.gateway.endpoint.handles().count(),
            1,
            "{kind:?}: the gateway accepted other sessions"
        );
    }
    table.print();
}
