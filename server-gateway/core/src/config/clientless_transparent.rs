//! Settings of the proxy's ports for redirected connections.
use std::net::SocketAddr;

use longhaul_settings::{Form, Setting, Value, Wrong, list};

/// Maximum number of ports: two of each family.
const MAX_PORTS: usize = 4;

/// `clientless.transparent`
pub const CLIENTLESS_TRANSPARENT: Setting<Vec<SocketAddr>> = Setting::new(
    "clientless.transparent",
    Form::Text("addresses and ports, such as `[::]:3130` for IPv4 and IPv6"),
    |_| Vec::new(),
    addresses,
    |addresses| Some(list(addresses)),
)
.repeated_flag("--clientless-transparent", "ADDR:PORT")
.meaning("TCP addresses to which the system redirects web connections of clients that know of no proxy (Linux)")
.reason(
    "None: it needs rules in the firewall, which `longhaul-gateway clientless rules` prints, and a gateway that is the \
         clients' router. Only clients of `clientless.allow` are served, and no connection that was not redirected",
);

fn addresses(value: &Value, _: &Form) -> Result<Vec<SocketAddr>, Wrong> {
    let texts = value.texts()?;
    if texts.len() > MAX_PORTS {
        return Err(Wrong::new(format!("there are more than {MAX_PORTS} addresses")));
    }
    let address = |text: String| {
        let wrong = |_| Wrong::new(format!("`{text}` is not ADDR:PORT"));
        text.parse().map_err(wrong)
    };
    texts.into_iter().map(address).collect()
}
