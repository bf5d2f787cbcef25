//! Experiments with real packets of the kernel, over an emulated UMTS link.
use std::time::Duration;

use longhaul_bulk::{
    Experiment, KnownNetwork, LostPacket, Measured, Outcome, SessionBefore, System, bars, experiments_for,
    measure, measured_the_machine,
};
use longhaul_netem::LinkDefinition;
use longhaul_world::{World, WorldConfig, WorldError};
use tokio::sync::Mutex;

fn link(name: &str) -> LinkDefinition {
    let Some(link) = LinkDefinition::built_in().find(|link| link.name == name) else {
        panic!("no built-in link is called {name}")
    };
    link
}

#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
fn skip(why: &impl std::fmt::Display) {
    println!("SKIPPED: {why}");
}

/// Returns a new world, or `None` without the required privileges.
fn world(link: &LinkDefinition, experiment: Experiment) -> Option<World> {
    let config = WorldConfig {
        hop: experiment.hop(link),
        internet: self::link("lan-fast").hop,
        seed: 1,
        congestion: None,
    };
    match World::build(config) {
        Ok(world) => Some(world),
        Err(error @ (WorldError::Namespace(_) | WorldError::Device { .. })) => {
            skip(&error);
            None
        }
        Err(error) => panic!("no world: {error}"),
    }
}

/// Experiments run in real time and take a core each: concurrent ones would affect each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Maximum number of attempts of an experiment on an overloaded machine.
const TRIES: usize = 3;

/// Runs the experiment, and repeats it if the machine was too busy for the emulator to keep its times.
async fn measured(link: &LinkDefinition, system: System, experiment: Experiment) -> Option<Measured> {
    let _alone = ONE_AT_A_TIME.lock().await;
    let mut last = None;
    for _ in 0..TRIES {
        let world = world(link, experiment)?;
        match measure(&world, link, link.name.parse().ok(), system, experiment).await {
            Ok(measured) if overloaded(link, &measured) => last = Some(measured),
            Ok(measured) => return Some(measured),
            Err(error @ longhaul_bulk::BulkError::Serve(_)) => {
                skip(&error);
                return None;
            }
            Err(error) => panic!("{system}: {error}"),
        }
    }
    last
}

/// Returns true if the machine, not the link, determined the figures, so that they are invalid.
fn overloaded(link: &LinkDefinition, measured: &Measured) -> bool {
    measured_the_machine(Duration::from_secs_f64(measured.lateness_p99_s), link)
}

#[tokio::test]
async fn bulk_fills_the_link() {
    let link = link("umts-384");
    let experiment = Experiment::Bulk {
        length: Duration::from_secs(5),
        loss_per_mille: 0,
    };
    for system in [System::Longhaul, System::Cubic] {
        let Some(measured) = measured(&link, system, experiment).await else {
            return;
        };
        let Some(Outcome::Bulk(bulk)) = &measured.outcome else {
            panic!("{system}: no figures: {:?}", measured.errors)
        };
        let curves: Vec<_> = measured.series.iter().map(|curve| curve.what.as_str()).collect();
        assert_eq!(curves, ["goodput, bit/s", "queueing delay, s"]);
        let line = serde_json::to_string(&measured).unwrap();
        let read: Measured = serde_json::from_str(&line).unwrap();
        assert!(bars(&link, &read).len() >= 7, "{system}");
        if overloaded(&link, &measured) {
            skip(&format!("{system}'s figures: {:?}", measured.errors));
            continue;
        }
        assert_eq!(measured.errors, Vec::<String>::new(), "{system}");
        assert!(measured.series.iter().all(|curve| curve.points.len() > 20));
        assert!(bulk.utilisation > 0.9 && bulk.utilisation < 1.02, "{bulk:?}");
        assert!(bulk.goodput > 0.8 && bulk.goodput < bulk.utilisation, "{bulk:?}");
        assert!(bulk.queue_p50_s <= bulk.queue_p95_s, "{bulk:?}");
        assert!(bulk.feedback > 0.0 && bulk.feedback < 0.5, "{bulk:?}");
        // The queue of the profile takes 2.5 s to send.
        assert!(bulk.queue_p95_s < 2.6, "{bulk:?}");
    }
}

#[tokio::test]
async fn every_system_fetches_a_bundle() {
    let link = link("lte");
    for session in [SessionBefore::Open, SessionBefore::None] {
        let experiment = Experiment::Bundle {
            bytes: 20_000,
            session,
        };
        for system in System::ALL {
            let Some(measured) = measured(&link, system, experiment).await else {
                continue;
            };
            let Some(Outcome::Bundle(bundle)) = &measured.outcome else {
                panic!("{system}, {session:?}: {:?}", measured.errors)
            };
            // Lower bound: a round trip plus the serialisation of the bytes.
            let rtt = link.rtt().as_secs_f64() * 0.9;
            assert!(bundle.first_byte_s > rtt, "{system}: {bundle:?}");
            assert!(bundle.last_byte_s >= bundle.first_byte_s, "{system}: {bundle:?}");
            assert!(bundle.bytes_down > 20_000, "{system}: {bundle:?}");
            assert!(bundle.busy.is_some(), "{system}: {bundle:?}");
        }
    }
}

#[tokio::test]
async fn an_outage_is_detected_and_survived() {
    let link = link("umts-384");
    let experiment = Experiment::Outage {
        length: Duration::from_secs(5),
    };
    let Some(measured) = measured(&link, System::Longhaul, experiment).await else {
        return;
    };
    let Some(Outcome::Outage(outage)) = &measured.outcome else {
        panic!("no figures: {:?}", measured.errors)
    };
    assert_eq!(outage.connections_lost, 0, "{:?}", measured.errors);
    if overloaded(&link, &measured) {
        return skip(&format!("the times after the outage: {:?}", measured.errors));
    }
    assert!(outage.first_byte_s.is_some_and(|late| late < 5.0), "{outage:?}");
    assert!(outage.regained.is_some_and(|share| share > 0.5), "{outage:?}");
}

#[tokio::test]
async fn a_lost_last_packet_is_retransmitted() {
    let link = link("lte");
    let experiment = Experiment::LostPacket {
        which: LostPacket::Tail,
        pairs: 4,
    };
    let Some(measured) = measured(&link, System::Longhaul, experiment).await else {
        return;
    };
    let Some(Outcome::LostPacket(lost)) = &measured.outcome else {
        panic!("no figures: {:?}", measured.errors)
    };
    assert_eq!(lost.messages, 4, "{lost:?}");
    if overloaded(&link, &measured) {
        return skip(&format!("the time of a repair: {:?}", measured.errors));
    }
    // A retransmission takes at least half a round trip; without one, the message would not have ended.
    assert!(lost.extra_p50_s > link.rtt().as_secs_f64() / 2.0, "{lost:?}");
    assert!(lost.extra_p50_s < 1.0, "{lost:?}");
}

#[tokio::test]
async fn a_download_continues_after_an_address_change() {
    let link = link("lte");
    let Some(measured) = measured(&link, System::Longhaul, Experiment::AddressChange).await else {
        return;
    };
    let Some(Outcome::AddressChange(changed)) = &measured.outcome else {
        panic!("no figures: {:?}", measured.errors)
    };
    assert_eq!(changed.connections_lost, 0, "{changed:?}");
    let in_time = |pause| pause < 5.0 || overloaded(&link, &measured);
    assert!(changed.pause_s.is_some_and(in_time), "{changed:?}");
}

#[tokio::test]
async fn a_session_opens_over_tls_where_udp_is_dropped() {
    let link = link("umts-384");
    for network in [KnownNetwork::Unknown, KnownNetwork::Remembered] {
        let experiment = Experiment::UdpBlocked { network };
        let Some(measured) = measured(&link, System::Longhaul, experiment).await else {
            return;
        };
        let Some(Outcome::Opened(opened)) = &measured.outcome else {
            panic!("{network:?}: {:?}", measured.errors)
        };
        // The round trips of TCP, of TLS, and of the request; jitter makes some shorter.
        assert!(
            opened.open_s > link.rtt().as_secs_f64() * 2.0,
            "{network:?}: {opened:?}"
        );
    }
}

#[tokio::test]
async fn a_part_of_a_trace_is_measured_at_its_offset() {
    // A second at a packet a millisecond, then a second at half of that.
    let fast = (0..1000).map(|millis| millis.to_string());
    let slow = (500..1000).map(|half| (half * 2).to_string());
    let text: Vec<String> = fast.chain(slow).collect();
    let text = text.join("\n");
    let queue = longhaul_types::ByteCount::kb(100);
    let link = LinkDefinition::from_traces("half", &text, &text, Duration::from_millis(20), queue).unwrap();
    let experiment = experiments_for(&link)[0];
    assert_eq!(experiment.hop(&link).down.capacity, link.hop.down.capacity);
    let traced = Experiment::Traced {
        length: Duration::from_secs(4),
        offset: Duration::from_secs(1),
    };
    assert_ne!(traced.hop(&link).down.capacity, link.hop.down.capacity);
    let Some(measured) = measured(&link, System::Cubic, traced).await else {
        return;
    };
    let Some(Outcome::Bulk(bulk)) = &measured.outcome else {
        panic!("no figures: {:?}", measured.errors)
    };
    let full = bulk.utilisation > 0.9 && bulk.utilisation < 1.01;
    assert!(full || overloaded(&link, &measured), "{bulk:?}");
    assert_eq!(bulk.lost, 0.0, "the queue is unlimited: {bulk:?}");
}
