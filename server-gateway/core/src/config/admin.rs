//! The setting of the admin port.
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
.meaning("address of the same requests as on the admin socket, for programs that cannot use a Unix socket")
.reason(
    "Off, because the admin socket is enough for commands. Only programs of root and of the gateway's own user are \
         admitted, with the token that `longhaul-gateway admin --token` prints",
);
