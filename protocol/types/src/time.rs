//! Points in time for sans-IO code: passed as arguments, never read from a clock.
use std::{
    ops::{Add, AddAssign, Sub},
    time::{Duration, SystemTime},
};

/// A point in time: nanoseconds since an origin that the caller selects (the driver's start, a simulation's
/// zero).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// Later than every time of a timer.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Time since `earlier`; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, time: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl AddAssign<Duration> for Timestamp {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl Sub for Timestamp {
    type Output = Duration;
    /// Time since `earlier`; zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

/// Wall-clock time: time since 1970-01-01 00:00 UTC. Used where two machines or two runs must agree
/// (handshake stamps, token expiry), never for measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(Duration);

impl UnixTime {
    /// The wall-clock time `since_epoch` after 1970-01-01 00:00 UTC.
    pub const fn new(since_epoch: Duration) -> Self {
        Self(since_epoch)
    }
    /// Time since 1970-01-01 00:00 UTC.
    pub const fn since_epoch(self) -> Duration {
        self.0
    }
}

impl From<SystemTime> for UnixTime {
    /// A clock before 1970 counts as 1970: then every stored response is stale, and no token is valid.
    fn from(time: SystemTime) -> Self {
        Self(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
    }
}

impl Add<Duration> for UnixTime {
    type Output = Self;
    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}
