//! UDP that dies in a download or a page load, on links of the benchmark: how long nothing new arrives, and what is sent
//! twice. The agent changes to its link by the rules of its driver (docs/protocol/transport.md section 8.3).
use std::time::Duration;

use longhaul_driver::Doubts;
use longhaul_netem::Profile;
use longhaul_types::{ByteCount, Timestamp};

use super::world::{AGENT, GATEWAY, World};
use crate::{
    report::{Bars, Table, ms},
    seeds,
};

const DOWNLOAD: &[u64] = &[20_000_000];
/// A page of 30 objects, 420 kB.
pub(super) const PAGE: &[u64] = &[
    60_000, 30_000, 25_000, 40_000, 15_000, 12_000, 9_000, 8_000, 22_000, 18_000, 7_000, 6_000, 5_000, 4_000,
    3_000, 14_000, 16_000, 11_000, 10_000, 9_500, 8_500, 7_500, 6_500, 5_500, 4_500, 3_500, 2_500, 20_000,
    24_000, 12_500,
];
/// Longest pause until new bytes arrive, for each link.
pub(super) const PAUSES: [(&str, Duration); 3] = [
    ("lte", Duration::from_millis(1500)),
    ("umts-384", Duration::from_millis(3000)),
    ("geo-sat", Duration::from_millis(4000)),
];
/// Multiple of a pause's target at which the test fails.
pub(super) const SLACK: f64 = 1.2;
/// Round trips until a link is open: TCP, TLS 1.3, and the upgrade.
pub(super) const ROUNDS: u32 = 3;
/// Bytes of these handshakes in the slower direction, with headers.
pub(super) const HANDSHAKE: u64 = 1_500;

#[derive(Clone, Copy, Debug)]
enum Dropped {
    Both,
    Up,
    Down,
}

/// The agent's driver: it opens a link when UDP is doubtful or silent, and uses it if UDP stays so.
pub(super) struct Driver {
    profile: Profile,
    doubts: Doubts,
    /// Start of the attempt to open a link, and its end.
    attempt: Option<(Timestamp, Timestamp)>,
    /// Attempts, and those after which the session changed to the link.
    pub(super) attempts: usize,
    pub(super) changes: usize,
}

impl Driver {
    pub(super) fn new(profile: Profile) -> Self {
        Self {
            profile,
            doubts: Doubts::default(),
            attempt: None,
            attempts: 0,
            changes: 0,
        }
    }

    pub(super) fn run(&mut self, world: &mut World) {
        let Some(connection) = world.handles[AGENT].and_then(|handle| world.sides[AGENT].peek(handle)) else {
            return;
        };
        let heard = connection.last_received_at();
        if connection.path().udp().is_none() {
            return;
        }
        let is_silent = connection.is_path_silent();
        let is_doubtful = connection.is_path_doubtful();
        match self.attempt {
            None if is_silent
                || self
                    .doubts
                    .begins(world.now, is_doubtful && connection.expects_data()) =>
            {
                self.attempts += 1;
                let sending = ByteCount::new(HANDSHAKE) / self.profile.rate_up();
                // The handshake of the link waits in the same queue as the packets of UDP.
                let waiting = world.up.free_at.saturating_since(world.now);
                let open = world.now + waiting + self.profile.rtt() * ROUNDS + sending;
                self.attempt = Some((world.now, open));
            }
            Some((began, _)) if heard > began && !is_doubtful => {
                self.doubts.in_vain(world.now);
                self.attempt = None;
            }
            Some((_, open)) if open <= world.now && is_silent => {
                self.doubts.succeeded();
                self.attempt = None;
                self.changes += 1;
                let (up, down) = (world.up.ordered(), world.down.ordered());
                let id = world.open_link_over(up, down);
                world.change_path(id.into());
            }
            None | Some(_) => {}
        }
    }

    /// The time at which the link opens, if it is not open.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.attempt.map(|(_, open)| open).filter(|open| *open > now)
    }
}

/// What a run has shown.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    pause: Duration,
    /// Bytes of streams that were sent again, in all and over the link. On a path without a downlink, the gateway repairs
    /// the tail once (transport.md section 5.3) before the agent leaves the path.
    repeated: u64,
    over_link: u64,
    /// Bytes in flight at most when UDP died, or until the gateway left it.
    in_flight: u64,
}

fn run(profile: Profile, bodies: &[u64], dropped: Dropped, percent: u64, seed: u64) -> Outcome {
    let mut world = World::over(profile, seed);
    let mut driver = Driver::new(profile);
    world.run_until(world.now + profile.rtt() * 4 + Duration::from_millis(500));
    for length in bodies {
        world.send_body(*length);
    }
    world.expect_data();
    let all: u64 = bodies.iter().sum();
    let end = world.now + Duration::from_secs(900);
    let (mut died, mut last, mut arrived) = (None, world.now, 0);
    let (mut pause, mut in_flight) = (Duration::ZERO, 0);
    let (mut before, mut at_change) = (0, 0);
    while world.finished < bodies.len() {
        let until = driver.next(world.now).map_or(end, |at| at.min(end));
        world.step(until);
        driver.run(&mut world);
        assert!(world.now < end, "{} of {} bodies", world.finished, bodies.len());
        // A probe brings a few new bytes, which is no progress.
        if world.arrived >= arrived + 1_000 || world.finished == bodies.len() {
            // The longest time without new bytes that contains or follows the death of UDP.
            if died.is_some() {
                pause = pause.max(world.now.saturating_since(last));
            }
            (arrived, last) = (world.arrived, world.now);
        }
        if died.is_none() && arrived * 100 >= all * percent {
            died = Some(world.now);
            last = world.now;
            before = world.stats(GATEWAY).retransmitted_bytes;
            world.most_in_flight = 0;
            if !matches!(dropped, Dropped::Down) {
                world.up.works = false;
            }
            if !matches!(dropped, Dropped::Up) {
                world.down.works = false;
            }
        }
        if died.is_some() && world.path(GATEWAY).is_some_and(|path| path.udp().is_some()) {
            in_flight = world.most_in_flight;
            at_change = world.stats(GATEWAY).retransmitted_bytes;
        }
    }
    assert!(died.is_some(), "UDP did not die");
    let repeated = world.stats(GATEWAY).retransmitted_bytes;
    Outcome {
        pause,
        repeated: repeated - before,
        over_link: repeated - at_change,
        in_flight,
    }
}

/// Runs all rows of a kind of transfer; `most` seeds for each.
fn rows(name: &str, bodies: &[u64], most: u64) {
    let columns = [
        "link",
        "UDP dropped",
        "at",
        "pause ms",
        "limit ms",
        "met",
        "W",
        "repeated",
        "met",
        "over TLS",
        "met",
    ];
    let mut table = Table::new(name, &columns);
    let mut bars = Bars::default();
    for (link, limit) in PAUSES {
        let profile = Profile::named(link).expect("a link of the benchmark");
        for dropped in [Dropped::Both, Dropped::Up, Dropped::Down] {
            for percent in [25, 50, 75] {
                let runs = seeds::for_some(name, most, |seed| run(profile, bodies, dropped, percent, seed));
                let worst = runs.iter().map(|run| run.pause).max().unwrap_or_default();
                let excess = |run: &&Outcome| run.repeated.saturating_sub(run.in_flight);
                let dearest = *runs.iter().max_by_key(excess).expect("a seed");
                let yes = |met: bool| if met { "yes" } else { "no" }.to_owned();
                table.row(&[
                    link.to_owned(),
                    format!("{dropped:?}").to_lowercase(),
                    format!("{percent} %"),
                    ms(worst),
                    ms(limit),
                    yes(worst <= limit),
                    dearest.in_flight.to_string(),
                    dearest.repeated.to_string(),
                    yes(dearest.repeated <= dearest.in_flight),
                    dearest.over_link.to_string(),
                    yes(dearest.over_link <= dearest.in_flight),
                ]);
                let row = format!("{link}, UDP dropped {dropped:?} at {percent} %");
                bars.within(&format!("{row}: pause"), worst, limit, SLACK);
                for run in &runs {
                    let window = run.in_flight as f64;
                    bars.at_most(
                        &format!("{row}: repeated over TLS"),
                        run.over_link as f64,
                        window,
                        window,
                    );
                    bars.at_most(
                        &format!("{row}: repeated"),
                        run.repeated as f64,
                        window,
                        2.0 * window,
                    );
                }
            }
        }
    }
    table.print();
    bars.settle(name);
}

#[test]
fn a_download_outlives_udp() {
    rows("a_download_outlives_udp", DOWNLOAD, 1);
}

#[test]
fn a_page_load_outlives_udp() {
    rows("a_page_load_outlives_udp", PAGE, 5);
}
