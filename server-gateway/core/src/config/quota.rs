//! Settings of the quota of devices and named clients without one of their own.
use longhaul_settings::{Form, Setting, Value, Wrong, quoted};
use longhaul_types::{BitRate, ByteCount};

use crate::quota_limits::{LimitError, month_text, parse_month, parse_rate, rate_text};

/// `quota.rate`
pub const QUOTA_RATE: Setting<Option<BitRate>> = Setting::new(
    "quota.rate",
    Form::Text("a rate from 8kbit/s to 10Gbit/s, such as `2Mbit/s`, or `none`"),
    |_| None,
    |value, _| optional(value, parse_rate),
    |rate| Some(quoted(&rate.map_or_else(|| "none".to_owned(), rate_text))),
)
.flag("--quota-rate", "RATE")
.reloadable()
.meaning("rate of each session in each direction, for devices without a rate of their own (`device quota NAME --rate`)")
.reason(
    "Agent and gateway send no faster; no packet is dropped. The first packets of a session, up to the size of a flight, \
         may be faster. Without it the link decides",
);

/// `quota.month`
pub const QUOTA_MONTH: Setting<Option<ByteCount>> = Setting::new(
    "quota.month",
    Form::Text("a size from 1MB to 1000000GB, such as `5GB`, or `none`"),
    |_| None,
    |value, _| optional(value, parse_month),
    |month| Some(quoted(&month.map_or_else(|| "none".to_owned(), month_text))),
)
.flag("--quota-month", "SIZE")
.reloadable()
.meaning(
    "bytes of a device or of a client with a name and a password in a month, in both directions together, for those without \
         an amount of their own (`device quota NAME --month`, `client quota NAME --month`)",
)
.reason(
    "Months are those of the calendar in UTC. All bytes between agent and gateway count, with IP and UDP headers, \
         because a mobile contract counts them, too; of a client without an agent, bodies and tunnels. Within half a second after they are used up, downloads and \
         tunnels end and new ones are refused until the next month",
);

fn optional<T>(value: &Value, parse: fn(&str) -> Result<T, LimitError>) -> Result<Option<T>, Wrong> {
    match value.text()? {
        "none" => Ok(None),
        text => parse(text).map(Some).map_err(Wrong::explained),
    }
}
