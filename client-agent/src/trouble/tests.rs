use std::time::Duration;

use longhaul_driver::{CloseReason, Refusal};
use tokio::time::Instant;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn current(diagnosis: &Diagnosis) -> Option<&'static str> {
    diagnosis.current().map(|known| known.trouble.kind())
}

#[test]
fn silence_is_reported_once_after_three_seconds() {
    let start = Instant::now();
    let mut diagnosis = Diagnosis::default();
    assert_eq!(diagnosis.poll_timeout(), None);
    diagnosis.expect_answer(start);
    assert_eq!(diagnosis.poll_timeout(), Some(start + 3 * SECOND));
    assert_eq!(
        diagnosis.handle_timeout(start + 2 * SECOND, Trouble::Silent(Tried::UDP)),
        None
    );
    assert_eq!(diagnosis.current(), None);
    let news = diagnosis.handle_timeout(start + 3 * SECOND, Trouble::Silent(Tried::UDP));
    assert_eq!(news, Some(Trouble::Silent(Tried::UDP)));
    assert_eq!(diagnosis.poll_timeout(), None);
    // The next attempts find the same: no more reports, and the beginning stays.
    diagnosis.expect_answer(start + 16 * SECOND);
    assert_eq!(
        diagnosis.found(start + 31 * SECOND, Trouble::Silent(Tried::UDP)),
        None
    );
    assert_eq!(diagnosis.current().unwrap().since, start);
    diagnosis.answered();
    assert_eq!((diagnosis.current(), diagnosis.poll_timeout()), (None, None));
    diagnosis.expect_answer(start + 60 * SECOND);
    assert_eq!(
        diagnosis.handle_timeout(start + 64 * SECOND, Trouble::Silent(Tried::UDP)),
        Some(Trouble::Silent(Tried::UDP))
    );
}

#[test]
fn evidence_of_a_wait_outweighs_its_silence_and_ends_with_it() {
    let start = Instant::now();
    let mut diagnosis = Diagnosis::default();
    diagnosis.expect_answer(start);
    assert_eq!(
        diagnosis.found(start + SECOND, Trouble::PortClosed(Tried::UDP)),
        Some(Trouble::PortClosed(Tried::UDP))
    );
    assert_eq!(diagnosis.poll_timeout(), None, "a known cause needs no timer");
    assert_eq!(
        diagnosis.found(start + 15 * SECOND, Trouble::Silent(Tried::UDP)),
        None
    );
    assert_eq!(current(&diagnosis), Some("port_closed"));
    // In the next wait nothing answers any more.
    diagnosis.expect_answer(start + 16 * SECOND);
    assert_eq!(
        diagnosis.handle_timeout(start + 19 * SECOND, Trouble::Silent(Tried::UDP)),
        Some(Trouble::Silent(Tried::UDP))
    );
    assert_eq!(diagnosis.current().unwrap().since, start + 16 * SECOND);
    // It changes back: both were reported.
    assert_eq!(
        diagnosis.found(start + 20 * SECOND, Trouble::PortClosed(Tried::UDP)),
        None
    );
    assert_eq!(current(&diagnosis), Some("port_closed"));
    diagnosis.found_nothing();
    assert_eq!(
        diagnosis.handle_timeout(start + 30 * SECOND, Trouble::Silent(Tried::UDP)),
        None,
        "reported before"
    );
    assert_eq!(current(&diagnosis), Some("silent"));
}

#[test]
fn a_wrong_clock_is_shown_while_the_hop_works() {
    let start = Instant::now();
    let mut diagnosis = Diagnosis::default();
    let off = ClockDifference {
        at_least: 7200 * SECOND,
        direction: ClockDirection::Behind,
    };
    diagnosis.answered();
    assert!(diagnosis.compared_clocks(start, Some(off)).is_some());
    assert_eq!(current(&diagnosis), Some("clock_off"));
    diagnosis.expect_answer(start + SECOND);
    diagnosis.found(start + SECOND, Trouble::Offline("no route".to_owned()));
    assert_eq!(current(&diagnosis), Some("offline"), "the hop comes first");
    diagnosis.answered();
    assert_eq!(
        diagnosis.compared_clocks(start + 9 * SECOND, Some(off)),
        None,
        "reported before"
    );
    assert_eq!(diagnosis.current().unwrap().since, start);
    assert_eq!(diagnosis.compared_clocks(start + 10 * SECOND, None), None);
    assert_eq!(diagnosis.current(), None);
}

#[test]
fn refusals_are_told_apart() {
    let of = |reason| Trouble::of_close(reason, Tried::UDP);
    let peer = |error| CloseReason::PeerClosed {
        error,
        reason: String::new(),
    };
    for (reason, kind, is_refusal) in [
        (CloseReason::Refused(Refusal::UnknownDevice), "not_enrolled", true),
        (CloseReason::Refused(Refusal::Revoked), "revoked", true),
        (CloseReason::Refused(Refusal::Expired), "invite_expired", true),
        (peer(4), "revoked", true),
        (
            CloseReason::Refused(Refusal::TooManySessions),
            "gateway_full",
            true,
        ),
        (CloseReason::Refused(Refusal::Draining), "gateway_draining", true),
        (CloseReason::VersionMismatch(vec![9]), "version_mismatch", true),
        (peer(6), "taken_over", true),
        (CloseReason::TimedOut, "silent", false),
        (CloseReason::Reset, "session_ended", false),
        (peer(0), "session_ended", false),
    ] {
        let trouble = of(reason);
        assert_eq!((trouble.kind(), trouble.is_refusal()), (kind, is_refusal));
    }
}

#[test]
fn failed_name_lookups_are_told_apart() {
    let nxdomain = "failed to lookup address information: Name or service not known";
    let timeout = "failed to lookup address information: Temporary failure in name resolution";
    let kind = |error, has_route| Trouble::of_name_lookup("gw.test", error, has_route).kind();
    assert_eq!(kind(nxdomain, true), "name_not_found");
    assert_eq!(kind(timeout, true), "name_lookup_failed");
    assert_eq!(kind(timeout, false), "offline");
    assert_eq!(
        kind(nxdomain, false),
        "offline",
        "without a network no name can be known"
    );
}
