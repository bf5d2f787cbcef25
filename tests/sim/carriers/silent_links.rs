//! An ordered link that falls silent in a download, on links of the benchmark: how long nothing new arrives. The agent opens a
//! successor by the rules of its driver (docs/protocol/transport.md section 8.3).
use std::time::Duration;

use longhaul_netem::Profile;
use longhaul_types::{ByteCount, Timestamp};

use super::{
    silence::{HANDSHAKE, PAUSES, ROUNDS, SLACK},
    world::{AGENT, World},
};
use crate::report::{Bars, Table, ms};

const DOWNLOAD: u64 = 20_000_000;
/// Silence after which a link is replaced without a successor.
const PATIENCE: Duration = Duration::from_secs(8);
/// Challenge and answer over an ordered link.
const PROBE: u64 = 1_200;

/// When the agent opens another link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// When the patience with the silent one has ended.
    Patience,
    /// When a probe is unanswered. The other one is used when it has answered.
    Successor,
}

/// Time at which a link that is dialled now can be used.
fn usable_at(rule: Rule, profile: Profile, now: Timestamp) -> Timestamp {
    let open = now + profile.rtt() * ROUNDS + ByteCount::new(HANDSHAKE) / profile.rate_up();
    match rule {
        Rule::Patience => open,
        Rule::Successor => {
            let probe = ByteCount::new(PROBE);
            open + profile.rtt() + probe / profile.rate_up() + probe / profile.rate_down()
        }
    }
}

/// A session over an ordered link of this profile, where UDP does not pass.
fn on_link(profile: Profile) -> World {
    let mut world = World::over(profile, 1);
    world.run_until(world.now + profile.rtt() * 4 + Duration::from_millis(500));
    renew_link(&mut world);
    world.run_until(world.now + profile.rtt() * 4 + Duration::from_millis(500));
    (world.up.works, world.down.works) = (false, false);
    world
}

fn renew_link(world: &mut World) {
    let (up, down) = (world.up.ordered(), world.down.ordered());
    let id = world.open_link_over(up, down);
    world.change_path(id.into());
}

/// Longest pause of a download whose link falls silent at `percent` of it.
fn pause(rule: Rule, profile: Profile, percent: u64) -> Duration {
    let mut world = on_link(profile);
    world.send_body(DOWNLOAD);
    world.expect_data();
    let end = world.now + Duration::from_secs(900);
    let (mut died, mut renewed, mut usable): (bool, bool, Option<Timestamp>) = (false, false, None);
    let (mut last, mut arrived, mut pause) = (world.now, 0, Duration::ZERO);
    while world.finished < 1 {
        world.step(usable.filter(|at| *at > world.now).unwrap_or(end));
        assert!(world.now < end, "it does not end");
        if world.arrived >= arrived + 1_000 || world.finished == 1 {
            if died {
                pause = pause.max(world.now.saturating_since(last));
            }
            (arrived, last) = (world.arrived, world.now);
        }
        if !died && arrived * 100 >= DOWNLOAD * percent {
            let link = world.link.as_mut().expect("a link");
            (link.up.works, link.down.works) = (false, false);
            (died, last) = (true, world.now);
        }
        let handle = world.handles[AGENT].expect("connected at the start");
        let connection = world.sides[AGENT].peek(handle).expect("open");
        let silence = world.now.saturating_since(connection.last_received_at());
        let is_due = match rule {
            Rule::Patience => connection.is_path_silent() && silence > PATIENCE,
            Rule::Successor => connection.is_path_doubtful(),
        };
        match usable {
            None if died && is_due && !renewed => usable = Some(usable_at(rule, profile, world.now)),
            Some(at) if at <= world.now => {
                (usable, renewed) = (None, true);
                renew_link(&mut world);
            }
            None | Some(_) => {}
        }
    }
    assert!(died && renewed, "the link did not fall silent");
    pause
}

#[test]
fn a_download_goes_on_over_the_successor_of_its_link() {
    let name = "a_download_goes_on_over_the_successor_of_its_link";
    let mut table = Table::new(
        name,
        &["link", "silent at", "replaced ms", "successor ms", "limit ms"],
    );
    let mut bars = Bars::default();
    for (link, limit) in PAUSES {
        let profile = Profile::named(link).expect("a link of the benchmark");
        for percent in [25, 50, 75] {
            let [before, now] = [Rule::Patience, Rule::Successor].map(|rule| pause(rule, profile, percent));
            table.row(&[
                link.to_owned(),
                format!("{percent} %"),
                ms(before),
                ms(now),
                ms(limit),
            ]);
            bars.within(
                &format!("{link}, silent at {percent} %: pause"),
                now,
                limit,
                SLACK,
            );
        }
    }
    table.print();
    bars.settle(name);
}
