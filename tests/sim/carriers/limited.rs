//! UDP that a network limits: the agent tries its link, stays on it if it carries more, and returns otherwise
//! (docs/protocol/transport.md section 8.3). The trials are those of its driver; the carrier is a lane that loses nothing.
use std::time::Duration;

use longhaul_driver::{Arrived, LinkTrial, TrialSituation, TrialStep};
use longhaul_netem::{Policer, Profile};
use longhaul_types::{BitRate, ByteCount, Timestamp};

use super::{
    lane::Lane,
    world::{AGENT, World, gateway_address},
};
use crate::{random::Random, report::Table, seeds};

/// Bytes of the download at most; the link takes up to 20 s for it.
const DOWNLOAD: u64 = 5_000_000;
const DURATION: Duration = Duration::from_secs(20);
/// Round trips until a link is open: TCP, TLS 1.3, and the upgrade.
const ROUNDS: u32 = 3;
/// The pause between trials, as the agent's.
const PAUSE: Duration = Duration::from_secs(60);
/// Longest run.
const LIMIT: Duration = Duration::from_secs(600);

/// The agent's driver with its trials.
struct Driver {
    trial: LinkTrial,
    /// The time at which the link of a trial is open.
    opens: Option<Timestamp>,
    /// The directions of the link.
    lanes: (Lane, Lane),
    rtt: Duration,
    seen: Seen,
}

/// What a run has shown.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    trials: usize,
    kept: usize,
    returned: usize,
    on_link: Duration,
    time: Duration,
    /// Least number of bytes that were delivered in order in a second that began on the link.
    least: u64,
    /// Bytes on the links.
    over_links: u64,
}

impl Driver {
    fn new(profile: Profile, lanes: (Lane, Lane), trials: bool) -> Self {
        Self {
            trial: LinkTrial::new(PAUSE, trials),
            opens: None,
            lanes,
            rtt: profile.rtt(),
            seen: Seen {
                least: u64::MAX,
                ..Seen::default()
            },
        }
    }

    fn run(&mut self, world: &mut World) {
        let Some(connection) = world.handles[AGENT].and_then(|handle| world.sides[AGENT].peek(handle)) else {
            return;
        };
        let stats = connection.stats();
        let is_on_udp = connection.path().udp().is_some();
        let situation = TrialSituation {
            is_on_udp,
            is_awaited: connection.expects_data(),
            is_silent: connection.is_path_silent(),
            is_loss_limited: stats.is_loss_limited,
            arrived: Arrived::of(&stats),
        };
        if self.opens.is_some_and(|at| at <= world.now) {
            self.opens = None;
            self.trial.on_changed(world.now, situation.arrived);
            let (up, down) = self.lanes.clone();
            let id = world.open_link_over(up, down);
            world.change_path(id.into());
            return;
        }
        match self.trial.poll(world.now, situation) {
            Some(TrialStep::Open) => {
                self.seen.trials += 1;
                self.opens = Some(world.now + self.rtt * ROUNDS);
            }
            Some(TrialStep::Keep) => self.seen.kept += 1,
            Some(TrialStep::Return) => {
                self.seen.returned += 1;
                world.change_path(gateway_address().into());
                world.close_link();
            }
            None => {}
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.opens.into_iter().chain(self.trial.due()).min()
    }
}

/// Runs a download; `disturb` is called after this time. Returns also what was delivered in order in each second.
fn download(
    world: &mut World,
    driver: &mut Driver,
    length: u64,
    after: Duration,
    disturb: impl FnOnce(&mut World),
) -> (Seen, Vec<u64>) {
    world.run_until(world.now + driver.rtt * 4 + Duration::from_millis(500));
    world.send_body(length);
    world.expect_data();
    let began = world.now;
    let mut disturb = Some(disturb);
    let mut second = (world.now, world.arrived);
    let mut is_on_link = false;
    let mut seconds = Vec::new();
    while world.finished == 0 {
        let wakes = [
            driver.next(),
            disturb.is_some().then_some(began + after),
            Some(second.0 + Duration::from_secs(1)),
        ];
        let until = wakes.into_iter().flatten().min().expect("three times");
        let before = world.now;
        world.step(until.max(world.now));
        if world.path(AGENT).is_some_and(|path| path.udp().is_none()) {
            driver.seen.on_link += world.now.saturating_since(before);
        }
        if world.now >= began + after
            && let Some(disturb) = disturb.take()
        {
            disturb(world);
            seconds.clear();
        }
        driver.run(world);
        if world.now >= second.0 + Duration::from_secs(1) {
            seconds.push(world.arrived - second.1);
            if is_on_link {
                driver.seen.least = driver.seen.least.min(world.arrived - second.1);
            }
            second = (world.now, world.arrived);
            is_on_link = world.path(AGENT).is_some_and(|path| path.udp().is_none());
        }
        assert!(
            world.now < began + LIMIT,
            "{} bytes arrived; {:?}; {seconds:?}",
            world.arrived,
            driver.seen
        );
    }
    driver.seen.time = world.now.saturating_since(began);
    driver.seen.over_links = world.over_links;
    (driver.seen, seconds)
}

fn world(profile: Profile, knows: bool, seed: u64) -> World {
    if knows {
        World::over(profile, seed)
    } else {
        World::over_unknown(profile, seed)
    }
}

/// A session behind a policer moves to its link while most of its packets are lost; what was in flight is repaired, and
/// bytes are delivered in order in every second from then on.
#[test]
fn behind_a_policer_the_session_stays_on_its_link() {
    let name = "behind_a_policer_the_session_stays_on_its_link";
    let columns = ["link", "UDP alone s", "time s", "least B/s", "trials", "kept"];
    let mut table = Table::new(name, &columns);
    for link in ["lte", "wlan-lossy"] {
        let profile = Profile::named(link).expect("a link of the benchmark");
        let length = (profile.rate_down() * DURATION).bytes().min(DOWNLOAD);
        let fastest = (profile.rate_down().as_bps() / 4000).min(750);
        let lanes = (
            Lane::of(&profile.up()).ordered(),
            Lane::of(&profile.down()).ordered(),
        );
        let runs = seeds::for_some(name, 20, |seed| {
            let mut random = Random::new(seed, 66);
            let knows = random.one_in(2);
            let policer = Policer {
                rate: BitRate::kbps(fastest / 3 + random.below(fastest * 2 / 3)),
                burst: ByteCount::new(8_000 + random.below(24_000)),
            };
            let after = if random.one_in(2) {
                Duration::ZERO
            } else {
                random.time(Duration::from_secs(2))
            };
            let run = |trials| {
                let mut world = world(profile, knows, seed);
                let mut driver = Driver::new(profile, lanes.clone(), trials);
                download(&mut world, &mut driver, length, after, |world| {
                    for lane in [&mut world.up, &mut world.down] {
                        lane.policer = Some(policer);
                    }
                })
            };
            let (seen, seconds) = run(true);
            assert!(
                seen.kept == 1 && seen.returned == 0,
                "{link}: {seen:?} {policer:?}"
            );
            assert!(seen.least > 0, "{link}: {seen:?} {policer:?} {seconds:?}");
            (seen, (seed < 4).then(|| run(false).0.time))
        });
        let mut times: Vec<_> = runs.iter().map(|(seen, _)| seen.time.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let alone: Vec<_> = runs
            .iter()
            .filter_map(|(_, time)| *time)
            .map(|time| time.as_secs_f64())
            .collect();
        table.row(&[
            link.to_owned(),
            format!("{:.1}", alone.iter().sum::<f64>() / alone.len().max(1) as f64),
            format!(
                "{:.1} ({:.1}-{:.1})",
                times[times.len() / 2],
                times[0],
                times[times.len() - 1]
            ),
            runs.iter()
                .map(|(seen, _)| seen.least)
                .min()
                .unwrap_or(0)
                .to_string(),
            runs.iter()
                .map(|(seen, _)| seen.trials)
                .sum::<usize>()
                .to_string(),
            runs.iter().map(|(seen, _)| seen.kept).sum::<usize>().to_string(),
        ]);
    }
    table.print();
}

/// How a link loses packets without limiting UDP.
#[derive(Clone, Copy, Debug)]
enum Loses {
    /// One of so many packets.
    OneIn(u64),
    /// All packets for so many milliseconds, at such an interval.
    Bursts { lost: u64, every: u64 },
}

/// On a link that loses packets at random or in bursts, a trial is rare and ends soon. TCP carries four fifths of UDP
/// there.
#[test]
fn links_that_lose_packets_keep_udp() {
    let name = "links_that_lose_packets_keep_udp";
    let columns = [
        "link",
        "loses",
        "time s",
        "without trials s",
        "trials",
        "kept",
        "share of time on link",
    ];
    let mut table = Table::new(name, &columns);
    for link in ["umts-384", "lte", "wlan-lossy", "geo-sat"] {
        let profile = Profile::named(link).expect("a link of the benchmark");
        let slower = |mut lane: Lane| {
            lane.rate = BitRate::bps(lane.rate.as_bps() * 4 / 5);
            lane
        };
        let lanes = (
            slower(Lane::of(&profile.up()).ordered()),
            slower(Lane::of(&profile.down()).ordered()),
        );
        for loses in [
            Loses::OneIn(33),
            Loses::OneIn(10),
            Loses::OneIn(5),
            Loses::Bursts {
                lost: 100,
                every: 2000,
            },
        ] {
            // A quarter of a minute of the link.
            let length = (profile.rate_down() * Duration::from_secs(15)).bytes();
            let runs = seeds::for_some(name, 4, |seed| {
                [true, false].map(|trials| {
                    let mut world = world(profile, seed % 2 == 0, seed);
                    let mut driver = Driver::new(profile, lanes.clone(), trials);
                    let (seen, _) = download(&mut world, &mut driver, length, Duration::ZERO, |world| {
                        for lane in [&mut world.up, &mut world.down] {
                            match loses {
                                Loses::OneIn(number) => lane.loss = number,
                                Loses::Bursts { lost, every } => {
                                    lane.bursts =
                                        Some((Duration::from_millis(every), Duration::from_millis(lost)));
                                }
                            }
                        }
                    });
                    seen
                })
            });
            for [with, without] in &runs {
                let what = format!("{link} {loses:?}: {with:?}, without trials {without:?}");
                // Bursts of the length of a round trip look like a limit, and UDP suffers from them more than TCP does here.
                if matches!(loses, Loses::OneIn(_)) {
                    assert_eq!(with.kept, 0, "{what}");
                }
                assert!(with.trials <= 2, "{what}");
                assert!(
                    with.time <= without.time.mul_f64(1.15) + profile.rtt() * 8,
                    "{what}"
                );
            }
            let mean = |of: &dyn Fn(&[Seen; 2]) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
            table.row(&[
                link.to_owned(),
                format!("{loses:?}"),
                format!("{:.1}", mean(&|run| run[0].time.as_secs_f64())),
                format!("{:.1}", mean(&|run| run[1].time.as_secs_f64())),
                runs.iter().map(|run| run[0].trials).sum::<usize>().to_string(),
                runs.iter().map(|run| run[0].kept).sum::<usize>().to_string(),
                format!(
                    "{:.3}",
                    mean(&|run| run[0].on_link.as_secs_f64() / run[0].time.as_secs_f64())
                ),
            ]);
        }
    }
    table.print();
}
