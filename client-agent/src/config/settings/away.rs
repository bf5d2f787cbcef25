//! Settings for the time without a gateway: direct fetches, and pages that wait for the hop.
use std::time::Duration;

use longhaul_origin::Cidr;
use longhaul_settings::{Form, Setting, list, quoted, units::show_duration};

use super::{
    super::{DEFAULT_FALLBACK, DEFAULT_PAGE_AFTER, DEFAULT_QUEUE_TIME, Fallback, parse},
    RANGES,
};

/// `fallback.after`
pub const FALLBACK_AFTER: Setting<Fallback> = Setting::new(
    "fallback.after",
    Form::Text("a time with its unit, such as `10s`, or `never`"),
    |_| Fallback::After(DEFAULT_FALLBACK),
    parse::fallback,
    |fallback| {
        Some(quoted(&match fallback {
            Fallback::After(time) => show_duration(*time),
            Fallback::Never => "never".to_owned(),
        }))
    },
)
.flag("--fallback-after", "TIME")
.reloadable()
.meaning(
    "time without an answer from the gateway after which the agent loads pages without the \
         gateway",
)
.reason(
    "The default is longer than the start of a session on the slowest links and shorter than \
         users wait",
);

/// `direct.allow`
pub const DIRECT_ALLOW: Setting<Vec<Cidr>> = Setting::new(
    "direct.allow",
    RANGES,
    |_| Vec::new(),
    parse::ranges,
    |ranges| Some(list(ranges)),
)
.flag("--direct-allow", "CIDRS")
.reloadable()
.meaning(
    "address ranges that the agent may reach without the gateway although they are loopback, \
         link-local or private addresses",
)
.reason(
    "Without an entry the agent rejects such addresses in this mode, except a private address \
         (RFC 1918, RFC 4193, RFC 6598) that the browser itself names as an IP address: a host \
         name of a foreign site that resolves into your network is an attack (DNS rebinding). \
         Programs of the agent's own user that are no browsers reach local addresses without an \
         entry. The agent's own ports are always rejected",
);

/// `away.page-after`
pub const AWAY_PAGE_AFTER: Setting<Option<Duration>> = Setting::new(
    "away.page-after",
    Form::Text("a time with its unit, such as `10s`, or `never`"),
    |_| Some(DEFAULT_PAGE_AFTER),
    parse::page_after,
    |after| Some(quoted(&after.map_or_else(|| "never".to_owned(), show_duration))),
)
.flag("--away-page-after", "TIME")
.reloadable()
.meaning(
    "silence of a gateway that has answered before, after which the browser gets a page that says that \
         the link is away, if the page cannot be loaded without the gateway either",
)
.reason(
    "The request goes on waiting, and the page completes by itself when the link is back. With `never`, \
         requests wait without a page for two minutes and then fail. Only pages that are opened in a tab get \
         it; other requests wait as long as the browser does",
);

/// `away.queue`
pub const AWAY_QUEUE: Setting<bool> = Setting::yes_no("away.queue", |_| false)
    .flag("--away-queue", "YES|NO")
    .reloadable()
    .meaning(
        "whether a page that was asked for while the link was away is loaded when it is back although its \
         tab was closed in the meantime",
    )
    .reason(
        "Off, because it costs bytes, and a visit at the site, that nobody may want any more. At most 64 \
         pages wait, in memory only; the dashboard lists and cancels them, and `longhaul-agent forget` \
         removes them. The answer waits until the page is opened again. Without it, a page is given up two \
         minutes after its tab was closed",
    );

/// `away.queue-time`
pub const AWAY_QUEUE_TIME: Setting<Duration> = Setting::duration(
    "away.queue-time",
    Duration::from_secs(60),
    Duration::from_secs(7 * 24 * 3600),
    |_| DEFAULT_QUEUE_TIME,
)
.reloadable()
.meaning("how long such a page waits, for the link and then for its reader")
.reason("The default is a working day on the road");
