//! Named links: built-in, defined by users, and recorded.
mod direction;
mod file;
mod mistake;
mod text;
mod value;

use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, Timestamp};

use crate::{Capacity, DeliveryTrace, HopConfig, LinkConfig, ParseTraceError, Profile};

pub use file::{MAX_LINKS, parse_links};
pub use mistake::{LinkFileError, LinkMistake, Mistake};
pub use text::NotExpressible;

/// A named link between client and gateway.
///
/// In addition to the built-in links (see [`Profile`]), links come from files that users write
/// ([`parse_links`]) and from recorded traces.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkDefinition {
    /// Its name.
    pub name: String,
    /// Configuration of the link.
    pub hop: HopConfig,
}

impl LinkDefinition {
    /// Returns the built-in links, the slowest first.
    pub fn built_in() -> impl Iterator<Item = Self> {
        Profile::all().map(Self::from)
    }

    /// Returns a link whose capacity was recorded, in the format of mahimahi: one trace per direction. Delay
    /// and queue are the same in both directions; other impairments can be added to [`hop`](Self::hop).
    ///
    /// # Errors
    /// One of the texts is not a valid trace.
    pub fn from_traces(
        name: impl Into<String>,
        down: &str,
        up: &str,
        delay: Duration,
        queue: ByteCount,
    ) -> Result<Self, ParseTraceError> {
        let link = |text| {
            let trace = DeliveryTrace::parse(text)?;
            Ok(LinkConfig::new(Capacity::Trace(trace), delay, queue))
        };
        Ok(Self {
            name: name.into(),
            hop: HopConfig::new(link(down)?, link(up)?),
        })
    }

    /// Rate towards the client for the ideal download: the raw rate, or the mean of a trace. ARQ
    /// retransmissions, a policer and outages are not deducted.
    pub fn rate_down(&self) -> BitRate {
        self.hop.down.capacity.nominal()
    }

    /// Rate towards the gateway, with the same definition.
    pub fn rate_up(&self) -> BitRate {
        self.hop.up.capacity.nominal()
    }

    /// Round-trip time of the idle link with the mean jitter, without serialisation.
    pub fn rtt(&self) -> Duration {
        let (down, up) = (&self.hop.down, &self.hop.up);
        let jitter = down.jitter.saturating_add(up.jitter) / 2;
        down.delay.saturating_add(up.delay).saturating_add(jitter)
    }
}

impl From<Profile> for LinkDefinition {
    fn from(profile: Profile) -> Self {
        Self {
            name: profile.name().to_owned(),
            hop: profile.into(),
        }
    }
}

impl Capacity {
    /// Returns the rate, or the mean over one period of a trace.
    pub fn nominal(&self) -> BitRate {
        match self {
            Self::Rate(rate) => *rate,
            Self::Trace(trace) => {
                let period = trace.period();
                let amount = trace.capacity_between(Timestamp::ZERO, Timestamp::ZERO + period);
                BitRate::of(amount, period)
            }
        }
    }
}
