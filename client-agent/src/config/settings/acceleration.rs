//! Settings of the acceleration: image level, cache, HTTPS, and pushes.
use std::{path::PathBuf, time::Duration};

use longhaul_session::ImageLevel;
use longhaul_settings::{Form, Setting, list, quoted, units::show_duration};
use longhaul_types::ByteCount;

use super::super::{DEFAULT_CACHE_SIZE, DEFAULT_IMAGE_LEVEL, DEFAULT_PATIENCE, MIN_CACHE_SIZE, parse};
use crate::https::Accelerate;

const HOSTS: &str = "host names such as `example.org`, separated by commas or as a list";

/// `image-level`
pub const IMAGE_LEVEL: Setting<ImageLevel> = Setting::new(
    "image-level",
    Form::OneOf(&["original", "high", "medium", "low", "text"]),
    |_| DEFAULT_IMAGE_LEVEL,
    parse::image_level,
    |level| Some(quoted(level.name())),
)
.flag("--image-level", "LEVEL")
.reloadable()
.meaning("fidelity of the images that a page displays")
.reason(
    "`original`: unchanged; `high`: differences are hard to find side by side; `medium`: \
         slight differences; `low`: obvious differences, recognisable content; `text`: no images, \
         browsers show the alternative text. The dashboard changes the level until the agent \
         ends. A reload without caches (Ctrl+Shift+R) shows the original images of a page at \
         every level. At `medium` and `low`, images that are larger than the screen are scaled to \
         the screen. Only images that a page displays are converted, never images that scripts \
         read, downloads, or responses that the origin marks `no-transform`. If sending the \
         original is faster than converting it, as on a fast and otherwise idle link, the \
         original is sent. Images are most of the bytes of most pages",
);

const CACHE: Form = Form::Size {
    least: MIN_CACHE_SIZE,
    most: None,
    zero: Some("no cache"),
};

/// `cache.size`
pub const CACHE_SIZE: Setting<ByteCount> = Setting::size("cache.size", CACHE, |_| DEFAULT_CACHE_SIZE)
    .flag("--cache-size", "SIZE")
    .meaning("maximum size of the agent's cache")
    .reason(
        "The default holds some weeks of one reader's pages; browsers use more for their own \
         caches. Without the cache the agent writes nothing to disk, and unchanged content \
         crosses the slow link again",
    );

/// `cache.dir`
pub const CACHE_DIR: Setting<PathBuf> = Setting::path("cache.dir", "a directory", |_| PathBuf::from("cache"))
    .flag("--cache-dir", "DIR")
    .default_text("`cache` in the state directory")
    .meaning("directory of the cache file")
    .reason(
        "It is accessible to its owner only. Two agents cannot share a cache: the second one runs \
         without a cache and reports this",
    );

/// `https.accelerate`
pub const HTTPS_ACCELERATE: Setting<Accelerate> = Setting::new(
    "https.accelerate",
    Form::Text(
        "`off`, `all` (except built-in exclusions), or host names such as `example.org`, \
         separated by commas or as a list",
    ),
    |_| Accelerate::Off,
    parse::accelerate,
    |accelerate| {
        Some(match accelerate {
            Accelerate::All => quoted("all"),
            Accelerate::Off => quoted("off"),
            Accelerate::Only(hosts) => list(hosts),
        })
    },
)
.flag("--https-accelerate", "HOSTS")
.reloadable()
.meaning("HTTPS hosts that are accelerated, which lets the gateway's operator read their traffic")
.reason(
    "Each name includes its subdomains. The default is off because the user has to make this \
         decision (https.md)",
);

/// `https.except`
pub const HTTPS_EXCEPT: Setting<Vec<String>> = Setting::new(
    "https.except",
    Form::Text(HOSTS),
    |_| Vec::new(),
    parse::hosts,
    |hosts| Some(list(hosts)),
)
.flag("--https-except", "HOSTS")
.reloadable()
.meaning("hosts whose HTTPS is never accelerated");

/// `push.enabled`
pub const PUSH_ENABLED: Setting<bool> = Setting::yes_no("push.enabled", |_| true)
    .switch(
        "--no-push",
        "no",
        "Disable pushes of the gateway: each object is fetched when the browser requests it",
    )
    .reloadable()
    .meaning(
        "page bundles: the gateway fetches and pushes the objects of a page before the browser \
         requests them",
    )
    .reason(
        "With `no` (or the flag, which takes no value) the agent sends the fetch of a page like \
         that of any other object, and the gateway plans no bundle; compression and caches remain \
         active. `longhaul-bench` compares both modes",
    );

/// `push.patience`
pub const PUSH_PATIENCE: Setting<Duration> = Setting::new(
    "push.patience",
    Form::Text("a time with its unit, such as `5s`"),
    |_| DEFAULT_PATIENCE,
    parse::patience,
    |time| Some(quoted(&show_duration(*time))),
)
.reloadable()
.meaning(
    "how long a browser request waits for a promised object while no data of its page arrives \
         over an open session (or eight round trips, if that is longer)",
)
.reason(
    "After this time the agent fetches the object with an ordinary request. The default is \
         longer than any retransmission takes",
);
