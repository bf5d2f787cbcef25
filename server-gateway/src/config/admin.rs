//! The setting of the admin page.
use std::net::SocketAddr;

use longhaul_settings::{Form, Setting};

use super::{parse, settings::address_or_off};

/// `admin.listen`
pub const ADMIN_LISTEN: Setting<Option<SocketAddr>> = Setting::new(
    "admin.listen",
    Form::Text("a loopback address and port, such as `127.0.0.1:9434`, or `off`"),
    |_| None,
    parse::admin_listen,
    address_or_off,
)
.flag("--admin-listen", "ADDR:PORT")
.meaning("address of the admin page, and of the same requests as on the admin socket for programs")
.reason(
    "Off, because the admin socket is enough for commands. A browser is admitted by the address that `longhaul-gateway \
         admin` prints, which works once, for five minutes; a program by the token that `longhaul-gateway admin --token` \
         prints. To reach the page from another machine, forward the port by ssh (`ssh -L 9434:127.0.0.1:9434 HOST`)",
);
