use longhaul_types::{BitRate, UnixTime};

use super::{
    super::{attachment::InterfaceKind, record::NetworkRecord},
    *,
};

fn memory() -> (tempfile::TempDir, StateDir, NetworkMemory) {
    let home = tempfile::tempdir().unwrap();
    let state_dir = StateDir::new(home.path().to_owned());
    let memory = NetworkMemory::open(state_dir.clone());
    (home, state_dir, memory)
}

fn network(number: u8) -> Attachment {
    Attachment::new(InterfaceKind::Wired, vec![2, 0, 0, 0, 0, number])
}

fn stats(kbps: u64) -> ConnectionStats {
    let mut stats = ConnectionStats {
        remote: Some("192.0.2.1:4433".parse().unwrap()),
        ..ConnectionStats::default()
    };
    stats.link.backlog = Duration::from_secs(1);
    stats.link.least_rtt = Some(Duration::from_millis(100));
    stats.link.incoming = Some((BitRate::kbps(kbps), BitRate::kbps(kbps)));
    stats
}

fn down(memory: &NetworkMemory, network: &Attachment) -> Option<u64> {
    Some(memory.recall(network).profile?.down.as_bps() / 1000)
}

#[test]
fn networks_are_remembered_after_a_restart_until_they_are_forgotten() {
    let (home, state_dir, memory) = memory();
    let (here, there) = (network(1), network(2));
    assert_eq!(memory.recall(&here), Recalled::default());
    memory.record(&here, &mut Recorded::default(), &stats(8_000));
    assert_eq!((down(&memory, &here), down(&memory, &there)), (Some(6_000), None));

    let restarted = NetworkMemory::open(state_dir.clone());
    assert_eq!(down(&restarted, &here), Some(6_000));
    assert_eq!(restarted.recall(&here).family, Some(Family::V4));
    assert_eq!(restarted.recall(&here).port, Some(4433));
    restarted.forget();
    assert_eq!(restarted.recall(&here), Recalled::default());
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    let restarted = NetworkMemory::open(state_dir);
    assert_eq!(restarted.recall(&here), Recalled::default());
}

#[test]
fn the_present_network_has_an_identity_once_something_is_recorded() {
    let (_home, _, memory) = memory();
    memory.enter(Some(&network(1)));
    assert_eq!(memory.present(), None, "there is no secret yet");
    memory.record(&network(1), &mut Recorded::default(), &stats(8_000));
    let first = memory.present();
    assert!(first.is_some());
    memory.enter(Some(&network(2)));
    assert!(memory.present().is_some_and(|id| Some(id) != first));
    memory.enter(None);
    assert_eq!(memory.present(), None);
    assert_eq!(NetworkMemory::off().present(), None);
}

#[test]
fn udp_is_doubtful_after_two_failures_in_a_day_until_it_works() {
    let (home, state_dir, memory) = memory();
    let (here, there) = (network(1), network(2));
    memory.record_udp(&here, true);
    assert!(!home.path().join("networks").exists(), "nothing to remember");
    memory.record_udp(&here, false);
    assert!(!memory.recall(&here).is_udp_doubtful);
    memory.record_udp(&here, false);
    assert!(memory.recall(&here).is_udp_doubtful && !memory.recall(&there).is_udp_doubtful);
    let restarted = NetworkMemory::open(state_dir);
    assert!(restarted.recall(&here).is_udp_doubtful);
    restarted.record_udp(&here, true);
    assert!(!restarted.recall(&here).is_udp_doubtful);

    let mut record = NetworkRecord::default();
    let at = |hours: u64| UnixTime::new(Duration::from_secs(hours * 3600));
    for hours in [10, 30] {
        record.push_udp_failure(hours * 3600);
    }
    assert!(record.is_udp_doubtful(at(33)) && !record.is_udp_doubtful(at(34)));
}

#[test]
fn quic_is_expected_after_it_worked_until_it_fails() {
    let (home, state_dir, memory) = memory();
    let (here, there) = (network(1), network(2));
    memory.record_quic(&here, false);
    assert!(!home.path().join("networks").exists(), "nothing to remember");
    memory.record_quic(&here, true);
    assert!(memory.recall(&here).is_quic_expected && !memory.recall(&there).is_quic_expected);
    let restarted = NetworkMemory::open(state_dir);
    assert!(restarted.recall(&here).is_quic_expected);
    restarted.record_quic(&here, false);
    assert!(!restarted.recall(&here).is_quic_expected);
}

#[test]
fn udp_that_carried_less_is_avoided_for_a_day_in_its_network() {
    let (_home, state_dir, memory) = memory();
    let (here, there) = (network(1), network(2));
    assert_eq!(memory.recall(&here).avoids_udp_for, None);
    memory.record_worse_udp(&here);
    // A session that opens over UDP because TLS fails says nothing about what UDP carries.
    memory.record_udp(&here, true);
    let restarted = NetworkMemory::open(state_dir);
    let rest = restarted.recall(&here).avoids_udp_for.unwrap();
    assert!(rest > Duration::from_secs(23 * 3600) && rest <= Duration::from_secs(24 * 3600));
    assert_eq!(restarted.recall(&there).avoids_udp_for, None);

    let record = NetworkRecord {
        udp_worse: Some(1_000),
        ..NetworkRecord::default()
    };
    let at = |seconds| UnixTime::new(Duration::from_secs(seconds));
    assert_eq!(
        record.avoids_udp_for(at(1_000 + 86_399)),
        Some(Duration::from_secs(1))
    );
    assert_eq!(record.avoids_udp_for(at(1_000 + 86_400)), None);
    // The clock was set back.
    assert_eq!(record.avoids_udp_for(at(0)), Some(Duration::from_secs(86_400)));
}

#[test]
fn one_session_counts_once_however_often_it_is_recorded() {
    let (_home, _, memory) = memory();
    let here = network(1);
    let mut recorded = Recorded::default();
    for kbps in [1_000, 2_000, 8_000] {
        memory.record(&here, &mut recorded, &stats(kbps));
    }
    assert_eq!(down(&memory, &here), Some(6_000), "one session at 8 Mbit/s");
    for _ in 0..2 {
        memory.record(&here, &mut Recorded::default(), &stats(8_000));
    }
    assert_eq!(down(&memory, &here), Some(8_000), "three sessions");
}

#[test]
fn a_start_that_was_too_fast_halves_the_remembered_rates_once() {
    let (_home, _, memory) = memory();
    let here = network(1);
    memory.record(&here, &mut Recorded::default(), &stats(8_000));
    let mut recorded = Recorded::default();
    let mut too_fast = stats(4_000);
    too_fast.link.started_too_fast = true;
    memory.record(&here, &mut recorded, &too_fast);
    memory.record(&here, &mut recorded, &too_fast);
    assert_eq!(down(&memory, &here), Some(3_000), "three quarters of 4 Mbit/s");
}

#[test]
fn a_contradicted_record_is_not_used_before_it_is_renewed() {
    let (_home, _, memory) = memory();
    let here = network(1);
    memory.record(&here, &mut Recorded::default(), &stats(8_000));
    assert!(memory.confirms(&here, Duration::from_millis(120)));
    assert!(!memory.confirms(&here, Duration::from_millis(1_200)));
    assert_eq!(down(&memory, &here), None);
    memory.record(&here, &mut Recorded::default(), &stats(8_000));
    assert_eq!(down(&memory, &here), Some(6_000));
}

#[test]
fn an_unreadable_file_counts_as_empty() {
    let (home, state_dir, memory) = memory();
    memory.record(&network(1), &mut Recorded::default(), &stats(8_000));
    for damaged in [&b"\xff\xfe"[..], b"", b"longhaul networks 9\n", &[b'x'; 200_000]] {
        std::fs::write(home.path().join("networks"), damaged).unwrap();
        let memory = NetworkMemory::open(state_dir.clone());
        assert_eq!(memory.recall(&network(1)), Recalled::default());
    }
}

#[test]
fn a_memory_that_is_off_writes_nothing() {
    let memory = NetworkMemory::off();
    memory.record(&network(1), &mut Recorded::default(), &stats(8_000));
    assert_eq!(memory.recall(&network(1)), Recalled::default());
    assert!(memory.confirms(&network(1), Duration::from_secs(9)));
    memory.forget();
    assert!(!memory.is_on());
}
