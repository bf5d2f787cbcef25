//! Networks that change, in virtual time: another address and another link, a NAT that rebinds, a suspension.
use std::net::SocketAddr;

use super::*;
use crate::path::LinkId;

const SIZE: usize = 6_000_000;

/// A download of [`SIZE`] bytes over a link, and its users.
struct Download {
    pair: Pair,
    users: (User, User),
}

impl Download {
    fn start(profile: Option<&str>, link: &str, seed: u64) -> Self {
        let (up, down) = hop(link);
        let mut pair = Pair::new(profile, up, down, seed);
        let mut users = (User::default(), User::default());
        users.0.send(pair.now, &mut pair.agent, 1, body(400, 1));
        Self { pair, users }
    }

    /// Runs until `stop`, at most `limit`.
    fn run(&mut self, limit: Duration, stop: impl Fn(&Self) -> bool) -> Duration {
        let began = self.pair.now;
        while !stop(self) {
            let (pair, users) = (&mut self.pair, &mut self.users);
            assert!(
                pair.step(began + limit),
                "{} bytes after {limit:?}; agent {:?} gateway {:?}",
                received(users),
                pair.agent.stats(),
                pair.gateway.stats()
            );
            for _request in users.1.pull(pair.now, &mut pair.gateway) {
                users.1.send(pair.now, &mut pair.gateway, 3, body(SIZE, 2));
            }
            users.1.push(pair.now, &mut pair.gateway);
            users.0.pull(pair.now, &mut pair.agent);
        }
        self.pair.now.saturating_since(began)
    }

    fn run_to(&mut self, bytes: usize, limit: Duration) -> Duration {
        self.run(limit, |of| received(&of.users) >= bytes)
    }

    fn finish(&mut self, limit: Duration) -> Duration {
        let time = self.run_to(SIZE, limit);
        assert!(self.users.0.received.values().any(|got| *got == body(SIZE, 2)));
        assert!(
            !self
                .pair
                .events
                .iter()
                .any(|(.., event)| matches!(event, Event::Closed(_)))
        );
        time
    }

    /// The old network is gone with all that was on its way; the agent is told about the new one.
    fn move_to(&mut self, link: &str, host: u8, profile: Option<&str>) {
        let pair = &mut self.pair;
        pair.flying.clear();
        (pair.up, pair.down) = hop(link);
        pair.up.free_at = pair.now;
        pair.down.free_at = pair.now;
        pair.from = SocketAddr::from(([198, 51, 100, host], 4000)).into();
        let profile = profile.map(|name| name.parse().expect("known"));
        pair.agent.moved_to_network(pair.now, profile);
    }
}

fn received(users: &(User, User)) -> usize {
    users.0.received.values().map(Vec::len).sum()
}

#[test]
fn a_download_continues_in_another_network_within_a_round_trip() {
    for seed in 1..=8 {
        for (first, second) in [
            ("lte", "umts-384"),
            ("umts-384", "lte"),
            ("wlan-lossy", "geo-sat"),
        ] {
            let mut download = Download::start(Some(first), first, seed);
            download.run_to(SIZE / 8, Duration::from_secs(60));
            download.move_to(second, 9, Some(second));
            let before = received(&download.users);
            let pause = download.run_to(before + 1, Duration::from_secs(10));
            let rtt = second.parse::<LinkProfile>().unwrap().rtt;
            let bar = rtt + Duration::from_millis(200);
            assert!(
                pause <= bar,
                "seed {seed}, {first} to {second}: {pause:?} of {bar:?}"
            );
            download.finish(Duration::from_secs(300));
        }
    }
}

/// UDP dies in both directions one after the other, and loses packets before: the first packet over TLS says what arrived.
#[test]
fn what_arrived_between_losses_is_not_sent_again_over_tls() {
    let mut download = Download::start(Some("lte"), "lte", 1);
    download.run_to(SIZE / 8, Duration::from_secs(60));
    let pair = &mut download.pair;
    pair.up.loss = 1.0;
    let mut number = 0_u32;
    pair.flying.retain(|flying| {
        number += 1;
        !flying.1 && !number.is_multiple_of(4)
    });
    pair.run_for(Duration::from_millis(150));
    pair.flying.clear();
    assert!(pair.agent.gaps.count() >= 6, "{} gaps", pair.agent.gaps.count());
    pair.up.loss = 0.0;
    pair.from = Path::Link(LinkId::ordered(7));
    pair.agent.change_path(pair.now, pair.from);
    let missing = pair.gateway.sent_packets.next_number() - pair.agent.gaps.received();
    let before = pair.gateway.stats().retransmitted_bytes;
    let arrived = received(&download.users);
    download.run_to(arrived + 500_000, Duration::from_secs(10));
    let again = download.pair.gateway.stats().retransmitted_bytes - before;
    // The gateway may repeat a packet or two as probes before it hears of the new path.
    assert!(
        again <= (missing + 3) * 1_472,
        "{again} bytes for {missing} packets"
    );
}

/// The agent grants at the rate that it remembers, instead of that of the network that it left, or of a start
/// without knowledge.
#[test]
fn a_remembered_network_is_filled_sooner() {
    let time = |profile| {
        let mut download = Download::start(Some("umts-384"), "umts-384", 1);
        download.run_to(100_000, Duration::from_secs(60));
        download.move_to("geo-sat", 9, profile);
        download.run_to(2_000_000, Duration::from_secs(60))
    };
    let (remembered, unknown) = (time(Some("geo-sat")), time(None));
    assert!(
        remembered.as_secs_f64() < 0.6 * unknown.as_secs_f64(),
        "{remembered:?}, {unknown:?}"
    );
}

#[test]
fn an_unknown_network_does_not_inherit_the_rate_of_the_last_one() {
    for seed in 1..=4 {
        let mut download = Download::start(Some("lte"), "lte", seed);
        download.run_to(SIZE / 4, Duration::from_secs(60));
        download.move_to("umts-384", 9, None);
        let before = download.pair.down.dropped;
        download.run_to(SIZE / 4 + 200_000, Duration::from_secs(60));
        let lost = download.pair.down.dropped - before;
        assert!(
            lost < 20,
            "seed {seed}: {lost} packets lost in the buffer of the slower network"
        );
    }
}

/// A NAT that gives the agent a new port every 20 s and drops what the gateway sends to the old one.
#[test]
fn a_download_survives_a_nat_that_rebinds_every_20_s() {
    for seed in 1..=4 {
        let mut download = Download::start(Some("umts-384"), "umts-384", seed);
        for port in 0..6_u16 {
            let until = download.pair.now + Duration::from_secs(20);
            download.run(Duration::from_secs(30), |of| of.pair.now >= until);
            download.pair.from = SocketAddr::from(([192, 0, 2, 1], 5_000 + port)).into();
            // Towards the old port.
            download.pair.flying.retain(|flying| flying.1);
        }
        download.finish(Duration::from_secs(120));
        assert_eq!(download.pair.agent.stats().stalls, 0, "seed {seed}");
    }
}

#[test]
fn a_download_survives_a_suspension_of_two_minutes() {
    for (link, is_noticed) in [("umts-384", true), ("lte", true), ("lte", false)] {
        let mut download = Download::start(Some(link), link, 1);
        download.run_to(SIZE / 4, Duration::from_secs(120));
        download.pair.suspended = true;
        let until = download.pair.now + Duration::from_secs(120);
        while download.pair.step(until) {}
        download.pair.suspended = false;
        if is_noticed {
            let now = download.pair.now;
            download.pair.agent.path_refreshed(now);
        }
        let before = received(&download.users);
        let pause = download.run_to(before + 1, Duration::from_secs(10));
        let rtt = link.parse::<LinkProfile>().unwrap().rtt;
        assert!(pause <= rtt * 2 + Duration::from_secs(1), "{link}: {pause:?}");
        download.finish(Duration::from_secs(200));
    }
}

#[test]
fn the_link_is_measured_for_later_sessions() {
    for (link, expected) in [
        ("lte", 12_000_000.0),
        ("umts-384", 384_000.0),
        ("geo-sat", 20_000_000.0),
    ] {
        let mut download = Download::start(None, link, 1);
        download.finish(Duration::from_secs(300));
        let stats = download.pair.agent.stats();
        let (low, high) = stats.link.incoming.expect("a download fills the link");
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = |rate: BitRate| rate.as_bps() as f64 / expected;
        println!("{link}: {:.3} to {:.3}", ratio(low), ratio(high));
        let rtt = link.parse::<LinkProfile>().unwrap().rtt;
        let least = stats.link.least_rtt.expect("a sample");
        assert!(
            least >= rtt && least <= rtt * 5 / 4 + Duration::from_millis(40),
            "{link}: {least:?}"
        );
        assert!((0.5..=1.05).contains(&ratio(low)), "{link}: {low:?}");
        assert!((0.8..=1.05).contains(&ratio(high)), "{link}: {high:?}");
        assert!(stats.link.backlog > Duration::from_secs(1));
        assert_eq!(download.pair.gateway.stats().link, LinkSummary::default());
    }
}

#[test]
fn a_profile_that_is_too_fast_is_noticed_and_a_right_one_is_not() {
    for (link, told, is_too_fast) in [
        ("umts-384", "umts-384", false),
        ("lte", "lte", false),
        ("geo-sat", "geo-sat", false),
        ("umts-384", "lte", true),
        ("gprs-3+1", "umts-384", true),
    ] {
        for seed in 1..=4 {
            let mut download = Download::start(Some(told), link, seed);
            download.run_to(60_000, Duration::from_secs(120));
            let found = download.pair.agent.stats().link.started_too_fast;
            assert_eq!(found, is_too_fast, "{link} as {told}, seed {seed}");
        }
    }
}
