//! Descriptions of the agent's settings.
mod acceleration;
mod away;
mod hold_out;
mod hop;
mod journal;

use std::{net::SocketAddr, path::PathBuf};

use longhaul_origin::Cidr;
use longhaul_settings::{
    Configured, EmptyVariables, FlagScope, Form, Program, Setting, WITHOUT, list, quoted,
};
use longhaul_types::Invite;

pub use acceleration::{
    CACHE_DIR, CACHE_SIZE, HTTPS_ACCELERATE, HTTPS_EXCEPT, IMAGE_LEVEL, PUSH_ENABLED, PUSH_PATIENCE,
};
pub use away::{AWAY_PAGE_AFTER, AWAY_QUEUE, AWAY_QUEUE_TIME, DIRECT_ALLOW, FALLBACK_AFTER};
pub use hold_out::HOLD_OUT;
pub use hop::{
    CARRIER, CARRIER_PIN, CARRIER_PROXY, CARRIER_PROXY_PASSWORD_FILE, CARRIER_QUIC_PORT, CARRIER_TLS_PORT,
    LINK, LINK_METERED, LINK_REMEMBER, PORTAL_CHECK, PORTAL_PORT, SESSION_EARLY_CREDENTIALS,
};
pub use journal::JOURNAL_KEEP;
pub use longhaul_service::settings::{LOG, LOG_FORMAT};

use super::{
    DEFAULT_CONTROL, DEFAULT_LISTEN,
    access::{self, PasswordFile},
    default_state_dir, parse,
};
use crate::listener::UserId;

/// Stands for the agent's settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agent;

impl Configured for Agent {
    const PROGRAM: &'static Program = &Program {
        name: "longhaul-agent",
        settings: &[
            &LOG,
            &LOG_FORMAT,
            &LISTEN,
            &LISTEN_USERS,
            &LISTEN_ALLOW,
            &LISTEN_PASSWORD_FILE,
            &CONTROL,
            &STATE_DIR,
            &INVITE,
            &LINK,
            &LINK_REMEMBER,
            &LINK_METERED,
            &CARRIER,
            &CARRIER_TLS_PORT,
            &CARRIER_QUIC_PORT,
            &CARRIER_PROXY,
            &CARRIER_PROXY_PASSWORD_FILE,
            &CARRIER_PIN,
            &PORTAL_PORT,
            &PORTAL_CHECK,
            &IMAGE_LEVEL,
            &FALLBACK_AFTER,
            &DIRECT_ALLOW,
            &AWAY_PAGE_AFTER,
            &AWAY_QUEUE,
            &AWAY_QUEUE_TIME,
            &JOURNAL_KEEP,
            &HOLD_OUT,
            &CACHE_SIZE,
            &CACHE_DIR,
            &HTTPS_ACCELERATE,
            &HTTPS_EXCEPT,
            &PUSH_ENABLED,
            &PUSH_PATIENCE,
            &SESSION_EARLY_CREDENTIALS,
        ],
        hidden_settings: &[&WITHOUT],
        system_file: "/etc/longhaul/agent.toml",
        user_file: Some("longhaul/agent.toml"),
        empty_variables: EmptyVariables::AreUnset,
        other_variables: &[],
        flag_scope: FlagScope::OneCommand,
    };
}

pub(super) const RANGES: Form =
    Form::Text("address ranges, such as `192.168.1.0/24`, separated by commas or as a list");

/// `listen`
pub const LISTEN: Setting<SocketAddr> = Setting::new(
    "listen",
    Form::Text("an address and port, such as `127.0.0.1:3128` or `[::1]:3128`"),
    |_| DEFAULT_LISTEN,
    parse::address,
    |address| Some(quoted(&address.to_string())),
)
.or_key("listen.address")
.flag("--listen", "ADDR:PORT")
.meaning("proxy address for browsers; port 0 selects a free port")
.reason(
    "The default is the common port of HTTP proxies, on this machine only. An address that \
         other machines can reach requires `listen.allow` and `listen.password-file`; without \
         them the agent does not start, because it would be an open relay",
);

/// `listen.users`
pub const LISTEN_USERS: Setting<Vec<UserId>> = Setting::new(
    "listen.users",
    Form::Text("names or numbers, separated by commas or as a list"),
    |_| Vec::new(),
    access::users,
    |users| Some(list(users)),
)
.flag("--listen-users", "USERS")
.reloadable()
.meaning("users of this machine whom the agent serves in addition to the user who runs it")
.reason(
    "Other users get an error page: what the agent loads and stores belongs to its user. An \
         agent that runs as root serves root, so list the people here",
);

/// `listen.allow`
pub const LISTEN_ALLOW: Setting<Vec<Cidr>> = Setting::new(
    "listen.allow",
    RANGES,
    |_| Vec::new(),
    parse::ranges,
    |ranges| Some(list(ranges)),
)
.flag("--listen-allow", "CIDRS")
.reloadable()
.meaning("address ranges of other machines that the agent serves")
.reason("Every client in these ranges needs a password");

/// `listen.password-file`
pub const LISTEN_PASSWORD_FILE: Setting<Option<PasswordFile>> = Setting::new(
    "listen.password-file",
    Form::Text("a file with lines `name:password`"),
    |_| None,
    |value, form| access::read_passwords(&form.path(value)?).map(Some),
    |file| Some(quoted(&file.as_ref()?.path.display().to_string())),
)
.flag("--listen-password-file", "FILE")
.default_text("none")
.reloadable()
.meaning("file with the passwords of clients, readable by its owner only")
.reason(
    "Passwords have at least 12 characters. Once the key is set, every client needs one of \
         the passwords, including clients on this machine (`Proxy-Authorization: Basic`). Each \
         name is a separate client. Passwords cross the network unencrypted: use them only in a \
         network that nobody can eavesdrop on, or through a VPN",
);

/// `control`
pub const CONTROL: Setting<SocketAddr> = Setting::new(
    "control",
    Form::Text("a loopback address and port, such as `127.0.0.1:3129` or `[::1]:3129`"),
    |_| DEFAULT_CONTROL,
    parse::loopback_address,
    |address| Some(quoted(&address.to_string())),
)
.flag("--control", "ADDR:PORT")
.meaning("address of the dashboard, `/status.json`, `/proxy.pac` and `POST /pictures?level=`")
.reason(
    "The user who runs the agent sees the status; changes, the list of loaded pages, and \
         other users need the token (below)",
);

/// `state-dir`
pub const STATE_DIR: Setting<Option<PathBuf>> = Setting::new(
    "state-dir",
    Form::Text("a directory"),
    default_state_dir,
    |value, form| form.path(value).map(Some),
    |path| Some(quoted(&path.as_ref()?.display().to_string())),
)
.flag("--state-dir", "DIR")
.default_text("`~/.local/state/longhaul-agent`")
.meaning("directory of the data that the agent keeps between runs")
.reason(
    "It contains the invite, the newest token, what is remembered about networks and, while \
         the agent runs, its addresses and the token of the control port. It is accessible to its \
         owner only. `XDG_STATE_HOME` is respected",
);

/// `invite`
pub const INVITE: Setting<Option<Invite>> = Setting::new(
    "invite",
    Form::Text("the whole line from the gateway's operator"),
    |_| None,
    parse::invite,
    // The invite contains the device's secret key.
    |_| None,
)
.flag("--invite", "LINE")
.default_text("the file `invite` in the state directory")
.meaning(
    "gateway address and key, and the key of this device. Other users of the machine can see \
         flags: prefer `longhaul enroll LINE`, which writes the file",
);
