use std::net::Ipv4Addr;

use super::*;
use crate::{networks::InterfaceKind, state_dir::StateDir};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2));

fn network(number: u8) -> Option<Attachment> {
    Some(Attachment::new(InterfaceKind::Wired, vec![2, 0, 0, 0, 0, number]))
}

fn gateway() -> Vec<SocketAddr> {
    vec!["192.0.2.1:4433".parse().unwrap()]
}

fn stats() -> ConnectionStats {
    let mut stats = ConnectionStats {
        remote: gateway().first().copied(),
        packets_received: 1000,
        ..ConnectionStats::default()
    };
    stats.link.backlog = Duration::from_secs(1);
    stats.link.least_rtt = Some(Duration::from_millis(100));
    let rate = BitRate::kbps(8_000);
    stats.link.incoming = Some((rate, rate));
    stats
}

struct Agent {
    home: tempfile::TempDir,
    tracker: LinkTracker,
}

impl Agent {
    /// An agent with a session in the network 1.
    fn new(told: Option<LinkProfile>, metered: Metered) -> Self {
        let home = tempfile::tempdir().unwrap();
        let memory = NetworkMemory::open(StateDir::new(home.path().to_owned()));
        let mut tracker = LinkTracker::new(memory, told, metered);
        tracker.enter(network(1));
        tracker.source = Some(HERE);
        Self { home, tracker }
    }

    /// Files of the state directory.
    fn written(&self) -> usize {
        std::fs::read_dir(self.home.path()).unwrap().count()
    }
}

#[tokio::test]
async fn a_change_of_the_network_is_known_before_anything_is_written() {
    let mut agent = Agent::new(None, Metered::No);
    let found = agent.tracker.judge(&stats(), network(2), THERE, Wake::Look);
    assert!(matches!(found, Network::Other(recalled) if recalled.profile.is_none()));
    assert_eq!(agent.written(), 0);
    agent.tracker.write_records().await;
    assert!(agent.written() > 0);
    let recalled = agent.tracker.enter(network(1));
    assert!(recalled.profile.is_some(), "of the network before");
    assert!(agent.tracker.enter(network(2)).profile.is_none());
}

#[tokio::test]
async fn what_was_noted_is_written_when_the_agent_ends_in_between() {
    let mut agent = Agent::new(None, Metered::No);
    agent.tracker.note_carrier(UsedCarrier::Quic);
    let found = agent.tracker.judge(&stats(), network(2), THERE, Wake::Look);
    assert!(matches!(found, Network::Other(_)));
    // The task of the session is dropped while it writes; the agent's end records the session.
    let _unfinished = tokio::time::timeout(Duration::ZERO, agent.tracker.write_records()).await;
    agent.tracker.record(&stats()).await;
    let recalled = agent.tracker.enter(network(1));
    assert!(recalled.profile.is_some() && recalled.is_quic_expected);
    assert!(agent.tracker.enter(network(2)).profile.is_some());
}

#[tokio::test]
async fn a_long_session_is_recorded_once_however_often_it_is_written() {
    let mut agent = Agent::new(None, Metered::No);
    for _ in 0..3 {
        agent.tracker.record(&stats()).await;
    }
    let file = std::fs::read_to_string(agent.home.path().join("networks")).unwrap();
    assert_eq!(file.matches("session ").count(), 1, "{file}");
}

#[tokio::test]
async fn a_suspension_and_another_address_refresh_the_session() {
    let mut agent = Agent::new(None, Metered::No);
    for (source, wake) in [(HERE, Wake::Resumed), (THERE, Wake::Look)] {
        let found = agent.tracker.judge(&stats(), network(1), source, wake);
        assert!(matches!(found, Network::Refreshed), "{source} {wake:?}");
    }
    let found = agent.tracker.judge(&stats(), network(1), THERE, Wake::Look);
    assert!(matches!(found, Network::Same));
    let found = agent.tracker.judge(&stats(), None, HERE, Wake::Look);
    assert!(matches!(found, Network::Other(_)), "the router is not known");
}

/// A remembered link is verified by some kilobytes, and each known link is warmed up over TLS.
#[tokio::test]
async fn a_known_link_that_costs_by_the_byte_is_measured_by_as_few_as_an_unknown_one() {
    for told in [None, Some("lte".parse().unwrap())] {
        for (metered, probing) in [
            (Metered::Yes, RateProbing::Pair),
            (Metered::No, RateProbing::Full),
        ] {
            let mut agent = Agent::new(told, metered);
            agent.tracker.record(&stats()).await;
            for number in [1, 2] {
                let is_metered = metered.decide(HERE).await;
                let tracker = &mut agent.tracker;
                let start = tracker.start(network(number), &gateway(), KnownAddresses::default(), is_metered);
                let start = start.unwrap();
                assert_eq!(start.profile.is_some(), told.is_some() || number == 1);
                assert_eq!(
                    start.probing(),
                    probing,
                    "{metered:?}, {} in network {number}",
                    tracker.knowledge.name()
                );
                assert_eq!(start.known.permits_trials, metered == Metered::No);
            }
        }
    }
}

/// The same by the way to the gateway, which here is this computer.
#[tokio::test]
async fn a_session_on_a_configured_link_begins_as_the_setting_says() {
    let here: Vec<SocketAddr> = vec!["127.0.0.1:4433".parse().unwrap()];
    for (metered, is_metered) in [(Metered::Yes, true), (Metered::No, false)] {
        let mut agent = Agent::new(Some("lte".parse().unwrap()), metered);
        let start = agent
            .tracker
            .begin(&here, KnownAddresses::default())
            .await
            .unwrap();
        assert_eq!((start.is_metered, start.profile.is_some()), (is_metered, true));
    }
}
