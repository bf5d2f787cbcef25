//! The agent's choice of the carrier of its session (docs/protocol/transport.md section 8.3).
use std::{net::SocketAddr, sync::Arc, time::Duration};

use longhaul_protocol::{endpoint::ConnectionHandle, path::LinkId};
use longhaul_types::{BitRate, ByteCount, LinkProfile, Timestamp};
use tokio::time::Instant;

use crate::{
    link::Carrier,
    udp_return::{ReturnTimes, UdpReturn},
};

/// Pause before a carrier that failed is tried again; it doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Bounds of the delay of the second carrier. RFC 8305 section 8 recommends 250 ms between attempts.
const LEAST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_DELAY: Duration = Duration::from_secs(3);
/// Round-trip time without a profile.
const UNKNOWN_RTT: Duration = Duration::from_millis(200);

/// Carriers of a session that is opened.
#[derive(Clone, Debug, Default)]
pub enum CarrierPlan {
    /// Only UDP.
    #[default]
    Udp,
    /// Only this carrier.
    Link(Arc<dyn Carrier>),
    /// UDP, and this carrier where UDP does not answer.
    UdpThen(Arc<dyn Carrier>, ReturnTimes),
    /// This carrier, and UDP where it does not answer: UDP carried less in this network before.
    LinkThenUdp(Arc<dyn Carrier>, ReturnTimes),
    /// UDP, and this carrier at the same time: UDP did not answer in this network before.
    UdpAnd(Arc<dyn Carrier>, ReturnTimes),
}

/// Delay after which a carrier starts beside UDP: the gateway's answer over UDP would have come by then.
pub(crate) fn delay(profile: Option<&LinkProfile>) -> Duration {
    let rtt = profile.map_or(UNKNOWN_RTT, |profile| profile.rtt);
    let init = profile.map_or(Duration::ZERO, |profile| {
        ByteCount::new(1280) / profile.up.max(BitRate::bps(1))
    });
    (rtt.saturating_mul(5) / 4)
        .saturating_add(init)
        .clamp(LEAST_DELAY, LONGEST_DELAY)
}

/// Delay after which UDP starts beside a carrier that is preferred. A link takes three round trips more than UDP: those of
/// TCP, TLS and the request.
pub(crate) fn head_start(profile: Option<&LinkProfile>) -> Duration {
    delay(profile) * 4
}

/// State of the choice for the session of an agent's driver task.
#[derive(Debug)]
pub(crate) struct CarrierChoice {
    pub(crate) session: ConnectionHandle,
    /// The gateway's UDP address; `None` if UDP is not used.
    pub(crate) udp: Option<SocketAddr>,
    /// Address for the books of the link: the carrier may connect to another one.
    pub(crate) remote: SocketAddr,
    pub(crate) carrier: Arc<dyn Carrier>,
    /// The link, connected or not.
    pub(crate) link: Option<LinkId>,
    /// Start of the last attempt.
    pub(crate) started: Timestamp,
    /// Time of the next attempt, if there is no link.
    pub(crate) due: Option<Instant>,
    failures: u32,
    /// No attempt was due yet: the INIT may not have been built.
    is_new: bool,
    /// Return to UDP.
    pub(crate) udp_return: UdpReturn,
}

impl CarrierChoice {
    pub(crate) fn new(
        session: ConnectionHandle,
        udp: Option<SocketAddr>,
        remote: SocketAddr,
        carrier: Arc<dyn Carrier>,
        link: Option<LinkId>,
        due: Option<Instant>,
        times: ReturnTimes,
    ) -> Self {
        Self {
            session,
            udp,
            remote,
            carrier,
            link,
            started: Timestamp::ZERO,
            due,
            failures: 0,
            is_new: true,
            udp_return: UdpReturn::new(times),
        }
    }

    /// Starts the carrier now, unless it has a link or waits after a failure.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if self.link.is_none() && self.failures == 0 {
            self.due = Some(self.due.map_or(now, |due| due.min(now)));
        }
    }

    /// True at the first call: the attempt then waits for the next turn of the driver, before which the INIT is sent.
    /// A path that is added before the INIT exists would get it only when it is repeated.
    pub(crate) const fn waits_for_init(&mut self) -> bool {
        std::mem::replace(&mut self.is_new, false)
    }

    /// Records that the link works.
    pub(crate) const fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Records the end of the link; the next attempt waits longer after each failure in a row.
    pub(crate) fn ended(&mut self, now: Instant, was_connected: bool) {
        self.link = None;
        let pause = if was_connected {
            Duration::ZERO
        } else {
            let pause = FIRST_PAUSE * 2_u32.saturating_pow(self.failures.min(10));
            self.failures = self.failures.saturating_add(1);
            pause.min(LONGEST_PAUSE)
        };
        self.due = Some(now + pause);
    }

    /// Stops the attempts: UDP works.
    pub(crate) const fn rest(&mut self) {
        self.link = None;
        self.due = None;
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_carrier_waits_for_the_answer_of_the_first_but_not_long() {
        let delay_of = |name: &str| delay(Some(&name.parse().unwrap()));
        assert_eq!(delay(None), Duration::from_millis(250));
        assert_eq!(delay_of("lan-fast"), LEAST_DELAY);
        let gprs = delay_of("gprs-3+1");
        assert!(
            gprs > Duration::from_millis(1500) && gprs <= LONGEST_DELAY,
            "{gprs:?}"
        );
    }
}
