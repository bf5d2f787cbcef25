use longhaul_types::BitRate;
use proptest::prelude::*;

use super::*;

const HOST: u64 = 1;

fn link() -> LinkClass {
    LinkClass::new(Some(Duration::from_millis(2)), Some(BitRate::kbps(100_000)))
}

/// Visits a host `count` times; a visit through the gateway takes `ratio` times as long as a direct one.
fn visit(comparisons: &mut Comparisons, count: u32, ratio: f64) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for _ in 0..count {
        let way = comparisons.choose(Kind::Tunnel, link(), true);
        let time = match way {
            Way::Gateway => 0.1 * ratio,
            Way::Direct => 0.1,
        };
        let verdict = comparisons.record(Kind::Tunnel, link(), HOST, way, Duration::from_secs_f64(time));
        verdicts.extend(Some(verdict).filter(|verdict| *verdict != Verdict::Unchanged));
    }
    verdicts
}

#[test]
fn a_link_on_which_longhaul_loses_is_bypassed_until_it_does_not() {
    let mut comparisons = Comparisons::default();
    assert_eq!(visit(&mut comparisons, 7 * ONE_IN, 1.5), []);
    let before = comparisons.regression(Kind::Tunnel, link());
    assert_eq!(
        (before.comparisons, before.slower, before.is_bypassed),
        (7, Some(1.0), false)
    );
    assert!(before.median.is_some_and(|median| (median - 1.5).abs() < 1e-6));
    assert_eq!(visit(&mut comparisons, ONE_IN, 1.5), [Verdict::Bypass]);
    assert!(comparisons.regression(Kind::Tunnel, link()).is_bypassed);
    // Most visits go direct now.
    let direct = (0..200)
        .filter(|_| comparisons.choose(Kind::Tunnel, link(), true) == Way::Direct)
        .count();
    assert_eq!(direct, 196);
    assert_eq!(visit(&mut comparisons, 20 * ONE_IN, 1.5), []);
    assert_eq!(visit(&mut comparisons, 20 * ONE_IN, 0.9), [Verdict::Return]);
    assert!(!comparisons.regression(Kind::Tunnel, link()).is_bypassed);
    // Other kinds and links are not concerned.
    assert_eq!(comparisons.regression(Kind::Page, link()), Regression::default());
}

#[test]
fn small_and_rare_losses_change_nothing() {
    let mut comparisons = Comparisons::default();
    assert_eq!(visit(&mut comparisons, 30 * ONE_IN, 1.04), []);
    assert_eq!(visit(&mut comparisons, 30 * ONE_IN, 0.3), []);
    let found = comparisons.regression(Kind::Tunnel, link());
    assert_eq!(found.comparisons, 60);
    assert_eq!(found.slower, Some(0.0));
}

#[test]
fn where_direct_connections_are_excluded_no_visit_is_held_out() {
    let mut comparisons = Comparisons::default();
    for _ in 0..1000 {
        assert_eq!(comparisons.choose(Kind::Page, link(), false), Way::Gateway);
    }
    assert_eq!(comparisons.regression(Kind::Page, link()).held_out, 0);
}

#[test]
fn hosts_and_links_are_bounded() {
    let mut comparisons = Comparisons::default();
    for number in 0..2 * MAX_HOSTS as u64 {
        let way = comparisons.choose(Kind::Page, link(), false);
        comparisons.record(Kind::Page, link(), number, way, Duration::from_millis(5));
    }
    assert_eq!(comparisons.0[&(link(), Kind::Page)].hosts.len(), MAX_HOSTS);
    for rtt in 0..10 {
        for rate in 0..10 {
            let link = LinkClass::new(
                Some(Duration::from_millis(1 << rtt)),
                Some(BitRate::kbps(1000 << rate)),
            );
            comparisons.choose(Kind::Tunnel, link, true);
        }
    }
    assert_eq!(comparisons.0.len(), MAX_LINKS);
}

proptest! {
    /// Whatever the times and the hosts: at most 2 % of the visits of a link go the other way.
    #[test]
    fn at_most_two_percent_go_the_other_way(
        visits in proptest::collection::vec((0_u64..5, any::<bool>(), 1_u64..1000), 0..3000),
    ) {
        let mut comparisons = Comparisons::default();
        let (mut all, mut other) = (0_u64, 0_u64);
        for (host, may_go_direct, milliseconds) in visits {
            let is_bypassed = comparisons.regression(Kind::Tunnel, link()).is_bypassed;
            let way = comparisons.choose(Kind::Tunnel, link(), may_go_direct);
            all += 1;
            if may_go_direct {
                other += u64::from((way == Way::Direct) != is_bypassed);
            } else {
                prop_assert_eq!(way, Way::Gateway);
            }
            prop_assert!(other * u64::from(ONE_IN) <= all);
            let time = Duration::from_millis(milliseconds);
            comparisons.record(Kind::Tunnel, link(), host, way, time);
        }
    }
}
