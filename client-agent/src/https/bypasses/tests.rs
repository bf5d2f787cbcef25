use longhaul_types::ClientId;

use super::*;
use crate::https::{
    bypass_reason::{REFUSED, REFUSED_EVERYWHERE},
    program::Program,
};

const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_700_000_000));

fn program(name: &str) -> ProgramId {
    Program::new(ClientId::OWNER, Some(name)).id(None)
}

fn refuse(bypasses: &mut Bypasses, (host, name): (&str, &str), now: UnixTime) {
    bypasses.add(
        (host, program(name)),
        Some(name.to_owned()),
        BypassReason::RefusedByClient,
        now,
    );
}

/// Duration of the bypass in seconds.
fn left(bypasses: &Bypasses, host: &str, name: &str, now: UnixTime) -> Option<u64> {
    let active = bypasses.active(now);
    let found = active
        .iter()
        .find(|bypassed| bypassed.host == host && bypassed.program == Some(program(name)))?;
    Some((found.until.since_epoch() - now.since_epoch()).as_secs())
}

#[test]
fn a_program_that_rejects_the_certificate_affects_no_other_program() {
    let mut bypasses = Bypasses::default();
    bypasses.accept("c.test", program("curl"), NOW);
    refuse(&mut bypasses, ("a.test", "curl"), NOW);
    assert!(bypasses.contains("a.test", program("curl"), NOW));
    assert!(!bypasses.contains("a.test", program("browser"), NOW));
    assert!(!bypasses.contains("b.test", program("curl"), NOW));
    assert!(!bypasses.contains_for_all("a.test", NOW));
    // The gateway plans for the host once another program accepts its certificate.
    assert!(bypasses.is_unseen("a.test", NOW));
    bypasses.accept("a.test", program("browser"), NOW);
    assert!(!bypasses.is_unseen("a.test", NOW) && bypasses.unseen(NOW).is_empty());
    assert!(bypasses.contains("a.test", program("curl"), NOW));
}

#[test]
fn a_program_that_has_accepted_no_certificate_is_bypassed_at_all_hosts() {
    let (hour, day) = (3600, 86400);
    let (browser, left) = ("Mozilla/5.0 (X11)", BypassReason::LeftByClient);
    for (name, why, expected) in [
        (
            "curl/8",
            BypassReason::RefusedByClient,
            [7 * day, 7 * day, 7 * day],
        ),
        (browser, BypassReason::RefusedByClient, [hour, day, 7 * day]),
        (browser, left, [300, day, 7 * day]),
        ("git/2", left, [7 * day, 7 * day, 7 * day]),
    ] {
        let (mut bypasses, mut now) = (Bypasses::default(), NOW);
        for (index, seconds) in expected.into_iter().enumerate() {
            let name = Some(name.to_owned());
            let of = program("some");
            // Another host each time.
            let host = format!("{index}.test");
            assert!(bypasses.add((&host, of), name.clone(), why, now));
            // A connection that the program had opened together with the first one.
            bypasses.add(("beside.test", of), name, why, now);
            assert!(
                bypasses.contains("other.test", of, now) && !bypasses.contains_for_all("other.test", now)
            );
            assert!(!bypasses.contains("other.test", program("another"), now));
            assert!(bypasses.are_all_unseen(now));
            let kept = bypasses.kept(now);
            bypasses = Bypasses::default();
            kept.iter().for_each(|kept| bypasses.restore(kept, now));
            now = now + Duration::from_secs(seconds - 1);
            assert!(bypasses.contains("other.test", of, now), "{why:?} {index}");
            now = now + Duration::from_secs(1);
            assert!(!bypasses.contains("other.test", of, now), "{why:?} {index}");
        }
    }
}

#[test]
fn an_accepted_certificate_ends_the_bypass_at_all_hosts() {
    let mut bypasses = Bypasses::default();
    let mut now = NOW;
    for _ in 0..3 {
        refuse(&mut bypasses, ("a.test", "app"), now);
        assert!(bypasses.contains("b.test", program("app"), now));
        now = now + REFUSED_EVERYWHERE[2];
    }
    refuse(&mut bypasses, ("a.test", "app"), now);
    // On a connection that was opened before.
    assert!(bypasses.accept("b.test", program("app"), now));
    for host in ["a.test", "b.test", "c.test"] {
        assert!(!bypasses.contains(host, program("app"), now), "{host}");
    }
    assert!(!bypasses.are_all_unseen(now));
    // From now on only the host that it rejects is bypassed.
    refuse(&mut bypasses, ("c.test", "app"), now);
    assert!(bypasses.contains("c.test", program("app"), now));
    assert!(!bypasses.contains("b.test", program("app"), now));
}

#[test]
fn a_host_that_fails_repeatedly_is_bypassed_for_longer() {
    let mut bypasses = Bypasses::default();
    let mut now = NOW;
    for expected in [300, 3600, 3600] {
        // Two requests of one page.
        bypasses.add_for_all("a.test", BypassReason::IncompatibleHost, now);
        bypasses.add_for_all("a.test", BypassReason::IncompatibleHost, now);
        assert_eq!(bypasses.active(now)[0].until, now + Duration::from_secs(expected));
        now = now + Duration::from_secs(expected);
        assert!(!bypasses.contains_for_all("a.test", now));
    }
    bypasses.add_for_all("a.test", BypassReason::UsersChoice, now);
    bypasses.add_for_all("a.test", BypassReason::IncompatibleHost, now);
    assert_eq!(
        bypasses.reason_for_all("a.test", now),
        Some(BypassReason::UsersChoice)
    );
}

#[test]
fn repeated_rejections_bypass_for_longer() {
    let mut bypasses = Bypasses::default();
    let mut now = NOW;
    for expected in [300, 3600, 86400, 86400] {
        bypasses.accept("other.test", program("app"), now);
        refuse(&mut bypasses, ("a.test", "app"), now);
        // A second connection of the same page.
        refuse(&mut bypasses, ("a.test", "app"), now + Duration::from_secs(1));
        let seconds = left(&bypasses, "a.test", "app", now).unwrap();
        assert_eq!(seconds, expected);
        now = now + Duration::from_secs(seconds);
        assert!(!bypasses.contains("a.test", program("app"), now));
    }
    // Much later, the count begins again.
    now = now + MEMORY;
    bypasses.accept("other.test", program("app"), now);
    refuse(&mut bypasses, ("a.test", "app"), now);
    assert_eq!(left(&bypasses, "a.test", "app", now), Some(300));
}

#[test]
fn a_program_that_accepts_a_certificate_ends_bypasses_after_single_rejections() {
    let mut bypasses = Bypasses::default();
    // A browser before its user has imported the authority.
    for host in ["a.test", "b.test"] {
        refuse(&mut bypasses, (host, "browser"), NOW);
    }
    refuse(&mut bypasses, ("pinned.test", "browser"), NOW);
    assert!(bypasses.accept("c.test", program("browser"), NOW));
    let later = NOW + REFUSED[0];
    refuse(&mut bypasses, ("pinned.test", "browser"), later);
    refuse(&mut bypasses, ("b.test", "curl"), NOW);
    for host in ["a.test", "b.test"] {
        assert!(!bypasses.contains(host, program("browser"), NOW), "{host}");
    }
    assert!(
        bypasses.contains("b.test", program("curl"), NOW),
        "another program"
    );
    assert!(
        bypasses.contains("pinned.test", program("browser"), later),
        "rejected twice"
    );
    assert!(!bypasses.accept("c.test", program("browser"), NOW));
    // It rejects the certificate of one host only.
    refuse(&mut bypasses, ("a.test", "browser"), NOW);
    assert_eq!(left(&bypasses, "a.test", "browser", NOW), Some(3600));
    assert!(!bypasses.accept("c.test", program("browser"), NOW));
    assert!(bypasses.accept("a.test", program("browser"), NOW));
    assert_eq!(left(&bypasses, "a.test", "browser", NOW), None);
}

#[test]
fn a_program_that_also_accepts_the_certificate_is_bypassed_only_briefly() {
    let mut bypasses = Bypasses::default();
    bypasses.accept("a.test", program("browser"), NOW);
    for _profile_without_authority in 0..5 {
        refuse(&mut bypasses, ("a.test", "browser"), NOW);
        assert_eq!(left(&bypasses, "a.test", "browser", NOW), Some(60));
    }
    let later = NOW + RECENT;
    bypasses.accept("b.test", program("browser"), later);
    refuse(&mut bypasses, ("a.test", "browser"), later);
    assert_eq!(left(&bypasses, "a.test", "browser", later), Some(3600));
}

#[test]
fn bypasses_are_bounded_and_those_with_the_longest_time_stay() {
    let mut bypasses = Bypasses::default();
    bypasses.add_for_all("asks.test", BypassReason::RequestsClientCertificate, NOW);
    for number in 0..2000 {
        bypasses.add(
            (&format!("{number}.test"), program("x")),
            None,
            BypassReason::NotHttp,
            NOW,
        );
        bypasses.accept(&format!("{number}.test"), program("y"), NOW);
    }
    assert_eq!(bypasses.active(NOW).len(), MAX_BYPASSES);
    assert_eq!(bypasses.accepted.len(), MAX_ACCEPTED);
    assert!(bypasses.contains_for_all("asks.test", NOW));
    assert!(bypasses.contains("1999.test", program("x"), NOW));
}

#[test]
fn restored_bypasses_last_at_most_the_maximum_time() {
    let mut bypasses = Bypasses::default();
    let of = |host: &str, until| BypassedHost {
        host: host.to_owned(),
        why: BypassReason::NotHttp,
        until,
        program: Some(program("x")),
        program_name: None,
        count: 1,
        everywhere: false,
    };
    bypasses.restore(&of("over.test", NOW), NOW);
    bypasses.restore(&of("soon.test", NOW + Duration::from_secs(9)), NOW);
    bypasses.restore(&of("years.test", NOW + Duration::from_secs(1 << 40)), NOW);
    let of_all_programs = BypassedHost {
        program: None,
        ..of("old.test", NOW + Duration::from_secs(9))
    };
    bypasses.restore(&of_all_programs, NOW);
    let names: Vec<_> = bypasses
        .kept(NOW)
        .into_iter()
        .map(|bypassed| bypassed.host)
        .collect();
    assert_eq!(names, ["soon.test", "years.test"]);
    assert!(!bypasses.contains("soon.test", program("x"), NOW + Duration::from_secs(9)));
    assert!(!bypasses.contains("years.test", program("x"), NOW + Duration::from_secs(3600)));
}

#[test]
fn counts_of_ended_bypasses_survive_a_restart() {
    let mut bypasses = Bypasses::default();
    bypasses.accept("b.test", program("app"), NOW);
    refuse(&mut bypasses, ("a.test", "app"), NOW);
    let later = NOW + REFUSED[0];
    assert_eq!(bypasses.active(later), []);
    let mut restored = Bypasses::default();
    bypasses
        .kept(later)
        .iter()
        .for_each(|kept| restored.restore(kept, later));
    restored.accept("b.test", program("app"), later);
    refuse(&mut restored, ("a.test", "app"), later);
    assert_eq!(left(&restored, "a.test", "app", later), Some(3600));
}

#[test]
fn a_host_is_forgotten_with_its_subdomains() {
    let mut bypasses = Bypasses::default();
    bypasses.add_for_all("a.test", BypassReason::UsersChoice, NOW);
    refuse(&mut bypasses, ("www.a.test", "curl"), NOW);
    refuse(&mut bypasses, ("b.test", "curl"), NOW);
    assert_eq!(bypasses.forget(Some("a.test"), NOW), 2);
    assert_eq!(bypasses.active(NOW).len(), 1);
    assert_eq!(bypasses.forget(None, NOW), 1);
    assert!(!bypasses.contains("c.test", program("curl"), NOW));
    bypasses.accept("c.test", program("curl"), NOW);
    refuse(&mut bypasses, ("b.test", "curl"), NOW);
    assert_eq!(
        left(&bypasses, "b.test", "curl", NOW),
        Some(300),
        "the count, too"
    );
}
