//! Transfers without techniques of the transport, as measurements make them.
use longhaul_types::{Technique, Techniques};

use super::*;

fn pair(name: &str, without: Techniques, loss: f64) -> Pair {
    let (mut up, mut down) = hop(name);
    (up.loss, down.loss) = (loss, loss);
    let profile: LinkProfile = name.parse().expect("known");
    Pair::with(
        TransportConfig::agent(Some(profile)).without(without),
        TransportConfig::gateway().without(without),
        up,
        down,
        5,
    )
}

fn time(pair: &mut Pair, size: usize) -> Duration {
    let mut users = (User::default(), User::default());
    fetch(pair, &mut users, &[size], Duration::from_secs(600))
}

#[test]
fn without_reports_of_losses_only_timeouts_repeat_packets() {
    let mut usual = pair("wlan-lossy", Techniques::NONE, 0.03);
    let mut without = pair("wlan-lossy", Techniques::NONE.with(Technique::Nack), 0.03);
    let (fast, slow) = (time(&mut usual, 600_000), time(&mut without, 600_000));
    assert!(slow > fast * 3 / 2, "{slow:?} instead of {fast:?}");
    assert!(usual.gateway.stats().packets_lost > 0);
    assert_eq!(without.gateway.stats().packets_lost, 0, "none was reported");
    // FORWARD also removes gaps that nobody declares lost.
    assert!(
        without.agent.stats().bookkeeping.1 < 20,
        "{:?}",
        without.agent.stats()
    );
}

#[test]
fn without_credit_the_window_stays_that_of_the_start() {
    let mut pair = pair("umts-384", Techniques::NONE.with(Technique::Credit), 0.0);
    // A link of a third of the rate of the profile: the usual window would shrink.
    pair.down.rate /= 3;
    let before = pair.gateway.granted.credit;
    time(&mut pair, 300_000);
    assert_eq!(pair.gateway.granted.credit, before);
    let mut measured = self::pair("umts-384", Techniques::NONE, 0.0);
    measured.down.rate /= 3;
    time(&mut measured, 300_000);
    assert!(measured.gateway.granted.credit < before);
}
