use longhaul_types::BitRate;
use proptest::prelude::*;

use super::*;
use crate::{holdout::link_class::LinkClass, networks::NetworkId};

const HOST: u64 = 1;

const NOW: u64 = 1_800_000_000;

fn link() -> Link {
    of_class(2, 100_000)
}

fn of_class(rtt: u64, kbps: u64) -> Link {
    Link {
        network: None,
        class: LinkClass::new(Some(Duration::from_millis(rtt)), Some(BitRate::kbps(kbps))),
    }
}

/// Visits a host `count` times; a visit through the gateway takes `ratio` times as long as a direct one.
fn visit(comparisons: &mut Comparisons, count: u32, ratio: f64) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for _ in 0..count {
        let way = comparisons.choose(Kind::Tunnel, link(), HOST, true, NOW);
        let time = match way.0 {
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
    assert_eq!(visit(&mut comparisons, 5 * ONE_IN, 1.5), []);
    let before = comparisons.regression(Kind::Tunnel, link());
    assert_eq!(
        (before.comparisons, before.slower, before.is_bypassed),
        (5, Some(1.0), false)
    );
    assert!(before.median.is_some_and(|median| (median - 1.5).abs() < 1e-6));
    assert_eq!(visit(&mut comparisons, ONE_IN, 1.5), [Verdict::Bypass]);
    assert!(comparisons.regression(Kind::Tunnel, link()).is_bypassed);
    // Most visits go direct now.
    let direct = (0..200)
        .filter(|_| comparisons.choose(Kind::Tunnel, link(), HOST, true, NOW).0 == Way::Direct)
        .count();
    assert_eq!(direct, 196);
    assert_eq!(visit(&mut comparisons, 20 * ONE_IN, 1.5), []);
    assert_eq!(visit(&mut comparisons, 20 * ONE_IN, 0.9), [Verdict::Return]);
    assert!(!comparisons.regression(Kind::Tunnel, link()).is_bypassed);
    // Other kinds and links are not concerned.
    assert_eq!(comparisons.regression(Kind::Page, link()), Regression::default());
}

/// The verdict as it is written in decision 74: of eight comparisons, by their median and the share of slower ones.
fn verdict_of_eight(is_bypassed: bool, eight: &VecDeque<f64>) -> Verdict {
    let median = quantile(eight, 0.5).unwrap();
    if !is_bypassed && median > LOSES.ln() && share(eight, LOSES) >= 0.75 {
        Verdict::Bypass
    } else if is_bypassed && median <= EVEN.ln() {
        Verdict::Return
    } else {
        Verdict::Unchanged
    }
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
        assert_eq!(
            comparisons.choose(Kind::Page, link(), HOST, false, NOW),
            (Way::Gateway, Role::Excluded)
        );
    }
    assert_eq!(comparisons.regression(Kind::Page, link()).held_out, 0);
}

#[test]
fn visits_that_could_not_go_direct_are_not_compared() {
    let mut comparisons = Comparisons::default();
    assert_eq!(visit(&mut comparisons, 6 * ONE_IN, 1.5), [Verdict::Bypass]);
    for _ in 0..100 {
        let way = comparisons.choose(Kind::Tunnel, link(), HOST, false, NOW);
        let time = Duration::from_millis(1);
        let verdict = comparisons.record(Kind::Tunnel, link(), HOST, way, time);
        assert_eq!(verdict, Verdict::Unchanged);
    }
    let found = comparisons.regression(Kind::Tunnel, link());
    assert!(found.is_bypassed && found.comparisons == 6, "{found:?}");
    assert_eq!(found.slower, Some(1.0), "the comparisons before stay known");
}

#[test]
fn no_host_is_held_out_more_often_than_others() {
    let mut comparisons = Comparisons::default();
    let mut direct = BTreeMap::new();
    for _ in 0..100 {
        for host in 0..u64::from(ONE_IN) {
            let way = comparisons.choose(Kind::Tunnel, link(), host, true, NOW);
            *direct.entry(host).or_insert(0) += u32::from(way.0 == Way::Direct);
            comparisons.record(Kind::Tunnel, link(), host, way, Duration::from_millis(50));
        }
    }
    assert!(direct.values().all(|direct| *direct <= 3), "{direct:?}");
    assert!(direct.values().sum::<u32>() >= 90, "{direct:?}");
}

#[test]
fn hosts_and_links_are_bounded() {
    let mut comparisons = Comparisons::default();
    for number in 0..2 * MAX_HOSTS as u64 {
        let way = comparisons.choose(Kind::Page, link(), number, true, NOW);
        comparisons.record(Kind::Page, link(), number, way, Duration::from_millis(5));
    }
    assert_eq!(comparisons.0[&(link(), Kind::Page)].hosts.len(), MAX_HOSTS);
    for number in 0..100 {
        let network = Some(NetworkId::new([number; 16]));
        let link = Link { network, ..link() };
        comparisons.choose(Kind::Tunnel, link, HOST, true, NOW + u64::from(number));
    }
    assert_eq!(comparisons.0.len(), MAX_LINKS);
}

#[test]
fn a_verdict_lasts_over_a_restart_for_a_month() {
    let mut comparisons = Comparisons::default();
    assert_eq!(visit(&mut comparisons, 6 * ONE_IN, 1.5), [Verdict::Bypass]);
    // Links without comparisons are not kept.
    comparisons.choose(Kind::Page, link(), HOST, true, NOW);
    let records = comparisons.records(NOW);
    assert_eq!(records.len(), 1);
    let mut restarted = Comparisons::of_records(records.clone(), NOW);
    assert_eq!(restarted.records(NOW), records);
    // No host is known any more, and no visit is held out before the 50th.
    for _ in 1..ONE_IN {
        let way = restarted.choose(Kind::Tunnel, link(), HOST, true, NOW);
        assert_eq!(way, (Way::Direct, Role::Usual));
        restarted.record(Kind::Tunnel, link(), HOST, way, Duration::from_millis(100));
    }
    let way = restarted.choose(Kind::Tunnel, link(), HOST, true, NOW);
    assert_eq!(way, (Way::Gateway, Role::HeldOut));
    let month = NOW + 30 * 24 * 3600;
    assert_eq!(Comparisons::of_records(records, month).records(month).len(), 0);
    // Another network has comparisons of its own.
    let network = Some(NetworkId::new([1; 16]));
    let elsewhere = restarted.regression(Kind::Tunnel, Link { network, ..link() });
    assert_eq!(elsewhere, Regression::default());
}

proptest! {
    /// An early verdict is the one that all eight comparisons give, whatever the missing ones are.
    #[test]
    fn a_verdict_does_not_wait_for_comparisons_that_cannot_change_it(
        is_bypassed: bool,
        ratios in proptest::collection::vec(prop_oneof![Just(1.0_f64), Just(1.05), 0.5..2.0], JUDGED),
    ) {
        let mut link = LinkRecord { is_bypassed, ..LinkRecord::default() };
        let mut early = Verdict::Unchanged;
        for ratio in &ratios {
            link.ratios.push_back(ratio.ln());
            link.fresh += 1;
            early = link.judge();
            if early != Verdict::Unchanged {
                break;
            }
        }
        let eight = ratios.iter().map(|ratio| ratio.ln()).collect();
        prop_assert_eq!(early, verdict_of_eight(is_bypassed, &eight));
    }

    /// Whatever the times and the hosts: at most 2 % of the visits of a link go the other way.
    #[test]
    fn at_most_two_percent_go_the_other_way(
        visits in proptest::collection::vec((0_u64..5, any::<bool>(), 1_u64..1000), 0..3000),
    ) {
        let mut comparisons = Comparisons::default();
        let (mut all, mut other) = (0_u64, 0_u64);
        for (host, may_go_direct, milliseconds) in visits {
            let is_bypassed = comparisons.regression(Kind::Tunnel, link()).is_bypassed;
            let way = comparisons.choose(Kind::Tunnel, link(), host, may_go_direct, NOW);
            all += 1;
            if may_go_direct {
                other += u64::from((way.0 == Way::Direct) != is_bypassed);
            } else {
                prop_assert_eq!(way, (Way::Gateway, Role::Excluded));
            }
            prop_assert!(other * u64::from(ONE_IN) <= all);
            let time = Duration::from_millis(milliseconds);
            comparisons.record(Kind::Tunnel, link(), host, way, time);
        }
    }
}
