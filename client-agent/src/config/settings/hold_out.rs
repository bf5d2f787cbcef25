//! The setting of the hold-out.
use longhaul_settings::{Form, Setting, quoted};

use super::super::parse;
use crate::holdout::HoldOutSetting;

/// `hold-out`
pub const HOLD_OUT: Setting<HoldOutSetting> = Setting::new(
    "hold-out",
    Form::OneOf(&["yes", "no", "metered"]),
    |_| HoldOutSetting::Yes,
    parse::hold_out,
    |setting| {
        Some(quoted(match setting {
            HoldOutSetting::Yes => "yes",
            HoldOutSetting::No => "no",
            HoldOutSetting::Metered => "metered",
        }))
    },
)
.flag("--hold-out", "YES|NO|METERED")
.meaning("whether one visit in 50 goes directly to its host, to find out whether Longhaul is slower than a direct connection")
.reason(
    "Only where the answer is open: on links with a round trip below 150 ms and 2 Mbit/s or more. Where Longhaul turns out to \
     be slower in the median, connections go direct, and one in 50 through the gateway. The file `hold-out` of the state directory \
     keeps the comparisons for 30 days, by network and without hosts, unless `link.remember` is `no`; `longhaul-agent forget` \
     deletes it. Pages with cookies, uploads and sites with a pause are left alone, and so is everything with `fallback.after = \"never\"` or behind an HTTP proxy. `yes`: not in \
     networks that cost by the byte, as NetworkManager says; `metered`: in these, too. A direct connection shows the local \
     network the host, and the host this network's address. `no`: nothing is compared, and an existing file is neither read nor \
     changed",
);
