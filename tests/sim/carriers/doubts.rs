//! Links that lose packets, or whose uplink another program fills: probes are lost or late there, and the session stays on
//! UDP (docs/protocol/transport.md section 8.3).
use std::time::Duration;

use longhaul_netem::Profile;
use longhaul_types::{ByteCount, Timestamp};

use super::{
    silence::{Driver, PAGE},
    world::{AGENT, World},
};
use crate::{
    report::{Table, ms},
    seeds,
};

/// Pages of a run, and the pause after each.
const PAGES: usize = 10;
const PAUSE: Duration = Duration::from_secs(3);

/// Loads the pages with pauses. `disturb` runs before each step.
fn load_pages(world: &mut World, driver: &mut Driver, mut disturb: impl FnMut(&mut World)) {
    let mut step = |world: &mut World, until: Timestamp| {
        disturb(world);
        world.step(driver.next(world.now).map_or(until, |at| at.min(until)));
        driver.run(world);
    };
    for page in 1..=PAGES {
        PAGE.iter().for_each(|length| world.send_body(*length));
        world.set_expecting(true);
        while world.finished < page * PAGE.len() {
            let later = world.now + PAUSE;
            step(world, later);
        }
        world.set_expecting(false);
        let next = world.now + PAUSE;
        while world.now < next {
            step(world, next);
        }
    }
}

/// Bytes that another program sends at once: the initial window of TCP.
const UPLOAD: ByteCount = ByteCount::new(15_000);
/// Mean time between two uploads.
const UPLOADS: Duration = Duration::from_secs(4);

/// Another program fills the queue of the uplink again and again: the packets of the agent are late, by up to 1.9 s, and
/// arrive.
#[test]
fn uploads_of_other_programs_keep_udp() {
    let name = "uploads_of_other_programs_keep_udp";
    let mut table = Table::new(
        name,
        &["link", "longest wait ms", "links opened in 10 runs", "changes"],
    );
    for link in ["umts-384", "lte", "wlan-lossy", "geo-sat"] {
        let profile = Profile::named(link).expect("a link of the benchmark");
        let runs = seeds::for_some(name, 10, |seed| {
            let mut world = World::over(profile, seed);
            world.run_until(world.now + profile.rtt() * 4 + Duration::from_millis(500));
            let mut driver = Driver::new(profile);
            let mut next = world.now;
            load_pages(&mut world, &mut driver, |world| {
                if next <= world.now {
                    world.up.free_at = world.up.free_at.max(world.now) + UPLOAD / world.up.rate;
                    next = world.now + UPLOADS / 2 + world.random.time(UPLOADS);
                }
            });
            let on_udp = world.path(AGENT).is_some_and(|path| path.udp().is_some());
            assert!(
                on_udp && driver.changes == 0,
                "{link}: {} changes",
                driver.changes
            );
            driver.attempts
        });
        let wait = UPLOAD / profile.rate_up();
        let attempts: usize = runs.iter().sum();
        table.row(&[link.to_owned(), ms(wait), attempts.to_string(), "0".to_owned()]);
    }
    table.print();
}

/// Ten pages over links that lose packets: no page leaves UDP, and few links are opened in vain.
#[test]
fn links_that_lose_packets_keep_udp() {
    let name = "links_that_lose_packets_keep_udp";
    let mut table = Table::new(
        name,
        &[
            "link",
            "lost: one of",
            "s a run",
            "links opened in 10 runs",
            "changes",
        ],
    );
    for link in ["umts-384", "lte", "wlan-lossy", "geo-sat"] {
        let profile = Profile::named(link).expect("a link of the benchmark");
        for loss in [33, 10, 5] {
            let runs = seeds::for_some(name, 10, |seed| {
                let mut world = World::over(profile, seed);
                world.run_until(world.now + profile.rtt() * 4 + Duration::from_millis(500));
                for lane in [&mut world.up, &mut world.down] {
                    lane.loss = loss;
                }
                let (mut driver, began) = (Driver::new(profile), world.now);
                load_pages(&mut world, &mut driver, |_| ());
                let on_udp = world.path(AGENT).is_some_and(|path| path.udp().is_some());
                assert!(on_udp && driver.changes == 0, "{link}, one of {loss} lost");
                (world.now.saturating_since(began), driver.attempts)
            });
            let seconds: f64 = runs.iter().map(|(time, _)| time.as_secs_f64()).sum();
            let attempts: usize = runs.iter().map(|(_, attempts)| attempts).sum();
            table.row(&[
                link.to_owned(),
                loss.to_string(),
                format!("{:.1}", seconds / runs.len() as f64),
                attempts.to_string(),
                "0".to_owned(),
            ]);
            // One in vain, and another one after each pause, which doubles.
            assert!(
                runs.iter().all(|(_, attempts)| *attempts <= 6),
                "{link}: {runs:?}"
            );
        }
    }
    table.print();
}
