//! Links that lose packets: single probes are lost there, and the session stays on UDP (docs/protocol/transport.md section
//! 8.3).
use std::time::Duration;

use longhaul_netem::Profile;

use super::{
    silence::{Driver, PAGE},
    world::{AGENT, World},
};
use crate::{report::Table, seeds};

/// Pages of a run, and the pause after each.
const PAGES: usize = 10;
const PAUSE: Duration = Duration::from_secs(3);

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
                for page in 1..=PAGES {
                    PAGE.iter().for_each(|length| world.send_body(*length));
                    world.set_expecting(true);
                    while world.finished < page * PAGE.len() {
                        let later = world.now + PAUSE;
                        world.step(driver.next(world.now).unwrap_or(later));
                        driver.run(&mut world);
                    }
                    world.set_expecting(false);
                    let next = world.now + PAUSE;
                    while world.now < next {
                        world.step(driver.next(world.now).map_or(next, |at| at.min(next)));
                        driver.run(&mut world);
                    }
                }
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
