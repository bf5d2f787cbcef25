//! Lookups of the gateway's name during a session, which goes on meanwhile.
use std::{net::SocketAddr, pin::Pin};

use crate::{networks::Wake, trouble::Trouble};

/// Looks between two lookups in a series that lasts long.
const MOST_LOOKS: u32 = 32;

/// Why the gateway's name is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// There is no route to any of its known addresses, after this reason to look.
    NoRoute(Wake),
    /// Its known addresses are silent.
    Silence,
    /// The session was opened through an HTTP proxy alone, and the network has changed since.
    Proxy,
}

impl Reason {
    /// Two lookups with the same answer.
    const fn is_like(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::NoRoute(_), Self::NoRoute(_))
                | (Self::Silence, Self::Silence)
                | (Self::Proxy, Self::Proxy)
        )
    }
}

type Running<T> = Pin<Box<dyn Future<Output = Result<T, Trouble>> + Send>>;

/// The lookup in progress, and the series for a session through an HTTP proxy.
pub(super) struct Lookup<T> {
    current: Option<(Reason, Running<T>)>,
    /// Looks since the network of a session through an HTTP proxy has changed, until the gateway is found.
    sought: Option<u32>,
}

/// A lookup of the gateway's addresses.
pub(super) type GatewayLookup = Lookup<Vec<SocketAddr>>;

impl<T> Default for Lookup<T> {
    fn default() -> Self {
        Self {
            current: None,
            sought: None,
        }
    }
}

impl<T> Lookup<T> {
    /// Begins a lookup. One for the same reason continues; one for another reason is given up, because a silent gateway and
    /// a network without a route follow each other.
    pub(super) fn begin(
        &mut self,
        reason: Reason,
        lookup: impl Future<Output = Result<T, Trouble>> + Send + 'static,
    ) {
        if self.current.as_ref().is_none_or(|(of, _)| !of.is_like(reason)) {
            self.current = Some((reason, Box::pin(lookup)));
        }
    }

    /// Waits for the end of the lookup in progress; never completes without one. Cancel safe.
    pub(super) async fn done(&mut self) -> (Reason, Result<T, Trouble>) {
        let Some((reason, lookup)) = &mut self.current else {
            return std::future::pending().await;
        };
        let (reason, found) = (*reason, lookup.await);
        self.current = None;
        (reason, found)
    }

    /// The network of a session through an HTTP proxy has changed: the gateway is looked for.
    pub(super) const fn seek(&mut self) {
        self.sought = Some(0);
    }

    /// The gateway was found.
    pub(super) const fn found(&mut self) {
        self.sought = None;
    }

    /// Counts a look at the network; true if the gateway is looked for and it is time for a lookup.
    pub(super) fn is_due(&mut self) -> bool {
        self.sought.as_mut().is_some_and(|looks| {
            *looks = looks.saturating_add(1);
            is_time(*looks)
        })
    }
}

/// Of a series of looks, those with a lookup: the first, second, fourth, eighth and so on.
pub(super) const fn is_time(looks: u32) -> bool {
    looks.is_power_of_two() || looks > 0 && looks.is_multiple_of(MOST_LOOKS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    async fn takes(seconds: u64) -> Result<u64, Trouble> {
        sleep(Duration::from_secs(seconds)).await;
        Ok(seconds)
    }

    /// Waits for a lookup beside something that is due every second, as the session's task does.
    async fn ticks_until_done(lookup: &mut Lookup<u64>) -> (u32, Reason, u64) {
        let mut ticks = 0;
        loop {
            tokio::select! {
                (reason, found) = lookup.done() => return (ticks, reason, found.unwrap()),
                () = sleep(Duration::from_millis(990)) => ticks += 1,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_goes_on_while_name_servers_do_not_answer() {
        let mut lookup = Lookup::default();
        lookup.begin(Reason::Silence, takes(3));
        assert_eq!(ticks_until_done(&mut lookup).await, (3, Reason::Silence, 3));
        let nothing = tokio::time::timeout(Duration::from_secs(60), lookup.done()).await;
        assert!(nothing.is_err(), "each result is reported once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_continues_unless_there_is_another_reason() {
        let mut lookup = Lookup::default();
        let began = Instant::now();
        lookup.begin(Reason::Silence, takes(3));
        lookup.begin(Reason::Silence, takes(9));
        lookup.begin(Reason::NoRoute(Wake::Look), takes(2));
        lookup.begin(Reason::NoRoute(Wake::Resumed), takes(9));
        let (_, reason, found) = ticks_until_done(&mut lookup).await;
        assert_eq!((reason, found), (Reason::NoRoute(Wake::Look), 2));
        assert_eq!(began.elapsed().as_secs(), 2);
    }

    #[test]
    fn the_gateway_behind_a_proxy_is_sought_ever_more_rarely() {
        let mut lookup = Lookup::<u64>::default();
        assert!(!lookup.is_due(), "the network has not changed");
        lookup.seek();
        let due: Vec<u32> = (1..=96).filter(|_| lookup.is_due()).collect();
        assert_eq!(due, [1, 2, 4, 8, 16, 32, 64, 96]);
        lookup.found();
        assert!(!lookup.is_due());
    }
}
