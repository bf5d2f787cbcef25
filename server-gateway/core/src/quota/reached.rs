//! Whether a device or a client without an agent has used up its bytes of the month.
use std::{fmt, time::SystemTime};

use longhaul_session::FailureReason;
use longhaul_types::{BitRate, ByteCount, DeviceId, PublicKey};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::{failure::Failure, quota_limits::month_text, rfc3339::rfc3339};

/// Whose quota it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A device with an agent.
    Device,
    /// A client without an agent.
    Client,
}

impl Holder {
    const fn word(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Client => "client",
        }
    }
}

/// A month's bytes that are used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    holder: Holder,
    name: String,
    month: ByteCount,
    ends: SystemTime,
}

impl Reached {
    /// The bytes of a month are used up until `ends`.
    pub const fn new(holder: Holder, name: String, month: ByteCount, ends: SystemTime) -> Self {
        Self {
            holder,
            name,
            month,
            ends,
        }
    }

    /// Name of the device or client.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The failure of a request.
    pub fn failure(&self) -> Failure {
        Failure::new(FailureReason::QuotaReached, self)
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the monthly quota of the {} `{}` ({}) is used up until {}",
            self.holder.word(),
            self.name,
            month_text(self.month),
            rfc3339(self.ends)
        )
    }
}

/// The state of a quota, which sessions and tunnels watch.
#[derive(Debug)]
pub struct QuotaState {
    reached: watch::Sender<Option<Reached>>,
    /// The session that was paced last, and its rate.
    paced: Mutex<Option<(u64, Option<BitRate>)>>,
}

impl Default for QuotaState {
    fn default() -> Self {
        Self {
            reached: watch::Sender::new(None),
            paced: Mutex::default(),
        }
    }
}

impl QuotaState {
    /// What is used up.
    pub fn reached(&self) -> Option<Reached> {
        self.reached.borrow().clone()
    }

    /// Waits until the month's bytes are used up. Cancel safe.
    pub async fn until_reached(&self) -> Reached {
        let mut changes = self.reached.subscribe();
        let reached = match changes.wait_for(Option::is_some).await {
            Ok(reached) => reached.clone(),
            Err(_) => None,
        };
        match reached {
            Some(reached) => reached,
            // Does not occur: the sender is this state.
            None => std::future::pending().await,
        }
    }

    /// Returns true if the device had used up its bytes and now has not, or the other way round.
    pub fn set(&self, reached: Option<Reached>) -> bool {
        let turns = self.reached.borrow().is_some() != reached.is_some();
        self.reached.send_if_modified(|now| {
            let changes = *now != reached;
            *now = reached;
            changes
        });
        turns
    }

    /// Notes what is used up, and logs each turn.
    pub fn note(&self, whose: &PublicKey, in_month: u64, reached: Option<Reached>) {
        let device = DeviceId::of(whose);
        match (self.set(reached), self.reached()) {
            (true, Some(reached)) => warn!(
                %device,
                name = reached.name(),
                transferred = %ByteCount::new(in_month),
                "{reached}: its downloads and tunnels end, and new ones are refused"
            ),
            (true, None) => {
                info!(%device, "a device or client may transfer again: its quota was raised, or a month has begun");
            }
            (false, _) => {}
        }
    }

    /// Returns true if the session of this number has not been paced to this rate yet.
    pub fn replace_rate(&self, session: u64, rate: Option<BitRate>) -> bool {
        let wanted = Some((session, rate));
        let mut paced = self.paced.lock();
        let is_new = *paced != wanted;
        *paced = wanted;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn watchers_learn_that_the_bytes_are_used_up_and_what_to_tell() {
        let state = QuotaState::default();
        let reached = Reached::new(
            Holder::Device,
            "ann".to_owned(),
            ByteCount::kb(5_000_000),
            SystemTime::UNIX_EPOCH,
        );
        assert!(!state.set(None));
        assert!(state.set(Some(reached.clone())));
        assert!(!state.set(Some(reached.clone())), "no second line in the log");
        assert_eq!(state.until_reached().await, reached);
        assert_eq!(state.reached().as_ref().map(Reached::name), Some("ann"));
        let failure = reached.failure();
        assert_eq!(
            failure.detail,
            "the monthly quota of the device `ann` (5GB) is used up until 1970-01-01T00:00:00Z"
        );
        assert!(state.set(None));
        assert_eq!(state.reached(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_the_end_of_the_bytes_is_woken() {
        let state = QuotaState::default();
        let reached = Reached::new(
            Holder::Device,
            "ann".to_owned(),
            ByteCount::kb(1000),
            SystemTime::UNIX_EPOCH,
        );
        let waiting = tokio::time::timeout(Duration::from_secs(1), state.until_reached());
        let (told, turned) = tokio::join!(waiting, async { state.set(Some(reached.clone())) });
        assert!(turned);
        assert_eq!(told, Ok(reached));
    }

    #[test]
    fn each_session_is_paced_once() {
        let state = QuotaState::default();
        let rate = Some(BitRate::kbps(2000));
        assert!(state.replace_rate(1, rate));
        assert!(!state.replace_rate(1, rate));
        assert!(state.replace_rate(1, None));
        assert!(state.replace_rate(2, None), "another session knows no limit yet");
    }
}
