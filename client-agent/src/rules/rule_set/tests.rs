use super::*;

const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_700_000_000));
const MINUTE: Duration = Duration::from_secs(60);

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

fn set(changes: &[RuleChange]) -> RuleSet {
    let mut rules = RuleSet::default();
    for change in changes {
        rules.apply(change, NOW).unwrap();
    }
    rules
}

#[test]
fn the_longest_name_decides_and_each_rule_on_its_own() {
    let rules = set(&[
        RuleChange::Https(name("a.test"), Some(HttpsRule::Tunnel)),
        RuleChange::Https(name("www.a.test"), Some(HttpsRule::Accelerate)),
        RuleChange::Images(name("a.test"), Some(ImageLevel::Low)),
    ]);
    let https = |host| rules.https(host).map(|(name, rule)| (name.as_str(), rule));
    assert_eq!(https("a.test"), Some(("a.test", HttpsRule::Tunnel)));
    assert_eq!(https("mail.a.test"), Some(("a.test", HttpsRule::Tunnel)));
    assert_eq!(https("x.www.a.test"), Some(("www.a.test", HttpsRule::Accelerate)));
    assert_eq!(https("nota.test"), None);
    assert_eq!(https("test"), None);
    assert_eq!(rules.images("www.a.test", NOW), Some(ImageLevel::Low));
    assert_eq!(rules.images("b.test", NOW), None);
}

#[test]
fn pauses_end_after_an_hour_and_originals_after_ten_minutes() {
    let mut rules = set(&[
        RuleChange::Images(name("a.test"), Some(ImageLevel::Low)),
        RuleChange::Originals(name("a.test")),
        RuleChange::Pause(Some(name("b.test"))),
        RuleChange::Pause(None),
    ]);
    let is_paused = |rules: &RuleSet, host, at| rules.pause(host, at).is_some();
    assert_eq!(
        rules.images("a.test", NOW + 9 * MINUTE),
        Some(ImageLevel::Original)
    );
    assert_eq!(rules.images("a.test", NOW + 10 * MINUTE), Some(ImageLevel::Low));
    assert!(is_paused(&rules, "c.test", NOW + 59 * MINUTE));
    assert!(!is_paused(&rules, "b.test", NOW + 60 * MINUTE));
    assert_eq!(rules.next_end(), Some(NOW + 10 * MINUTE));
    assert!(!rules.clone().expire(NOW + 9 * MINUTE));
    assert!(rules.expire(NOW + 10 * MINUTE));
    assert_eq!(rules.next_end(), Some(NOW + 60 * MINUTE));
    assert!(rules.expire(NOW + 60 * MINUTE));
    assert_eq!(
        rules,
        set(&[RuleChange::Images(name("a.test"), Some(ImageLevel::Low))])
    );
    assert_eq!(rules.next_end(), None);
}

#[test]
fn a_pause_of_everything_or_of_a_name_ends_early_on_request() {
    let mut rules = set(&[RuleChange::Pause(None), RuleChange::Pause(Some(name("a.test")))]);
    let pause = |rules: &RuleSet, host| {
        let pause = rules.pause(host, NOW)?;
        Some(pause.name.map(HostName::to_string))
    };
    assert_eq!(pause(&rules, "b.test"), Some(None));
    rules.apply(&RuleChange::Resume(None), NOW).unwrap();
    assert_eq!(pause(&rules, "b.test"), None);
    assert_eq!(pause(&rules, "www.a.test"), Some(Some("a.test".to_owned())));
    rules
        .apply(&RuleChange::Resume(Some(name("a.test"))), NOW)
        .unwrap();
    assert!(rules.is_empty());
}

#[test]
fn a_clock_that_was_wrong_prolongs_nothing() {
    let mut rules = set(&[RuleChange::Pause(None), RuleChange::Originals(name("a.test"))]);
    let earlier = UnixTime::new(NOW.since_epoch() - 1000 * MINUTE);
    assert!(rules.expire(earlier));
    assert_eq!(rules.paused_until(earlier), Some(earlier + 60 * MINUTE));
    assert_eq!(rules.next_end(), Some(earlier + 10 * MINUTE));
}

#[test]
fn the_gateway_gets_one_level_a_name() {
    let rules = set(&[
        RuleChange::Images(name("a.test"), Some(ImageLevel::Original)),
        RuleChange::Images(name("www.b.test"), Some(ImageLevel::Low)),
        RuleChange::Originals(name("b.test")),
        RuleChange::Https(name("c.test"), Some(HttpsRule::Tunnel)),
    ]);
    let levels = |now| {
        let levels = rules.image_levels(now).into_iter();
        levels
            .map(|(name, level)| format!("{name} {}", level.name()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        levels(NOW),
        ["a.test original", "b.test original", "www.b.test original"]
    );
    assert_eq!(levels(NOW + 11 * MINUTE), ["a.test original", "www.b.test low"]);
}

#[test]
fn names_are_limited_and_empty_rules_removed() {
    let mut rules = RuleSet::default();
    let tunnel = |number: usize| RuleChange::Https(name(&format!("{number}.test")), Some(HttpsRule::Tunnel));
    for number in 0..MAX_NAMES {
        rules.apply(&tunnel(number), NOW).unwrap();
    }
    assert_eq!(rules.apply(&tunnel(MAX_NAMES), NOW), Err(TooManyRules));
    rules.apply(&tunnel(0), NOW).unwrap();
    rules
        .apply(&RuleChange::Https(name("0.test"), None), NOW)
        .unwrap();
    assert_eq!(rules.len(), MAX_NAMES - 1);
    rules.apply(&RuleChange::Remove(name("1.test")), NOW).unwrap();
    rules.apply(&RuleChange::RemoveAll, NOW).unwrap();
    assert!(rules.is_empty());
}
