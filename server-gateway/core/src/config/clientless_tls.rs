//! Settings of the proxy's TLS port.
use std::{net::SocketAddr, path::PathBuf};

use longhaul_settings::{Form, Setting, quoted};

use super::{clientless::listen, settings::address_or_off};

/// `clientless.tls`
pub const CLIENTLESS_TLS: Setting<Option<SocketAddr>> = Setting::new(
    "clientless.tls",
    Form::Text("`off`, or an address and port, such as `0.0.0.0:3129`"),
    |_| None,
    listen,
    address_or_off,
)
.flag("--clientless-tls", "ADDR:PORT")
.meaning("TCP address of the same proxy inside TLS, with HTTP/2 or HTTP/1.1")
.reason(
    "Off: it needs a certificate that the browsers trust. Clients outside of `clientless.allow` may use this port \
         with a name and a password. The port may be that of `carriers.tls`",
);

/// `clientless.certificate`
pub const CLIENTLESS_CERTIFICATE: Setting<Option<PathBuf>> = Setting::new(
    "clientless.certificate",
    Form::Text("a file (PEM)"),
    |_| None,
    |value, form| form.path(value).map(Some),
    |path| Some(quoted(&path.as_ref()?.display().to_string())),
)
.default_text("none")
.meaning("certificate chain of `clientless.tls`, for the name by which browsers reach the proxy")
.reason(
    "Browsers refuse a proxy whose certificate they do not trust. The file is read again when it changes",
);

/// `clientless.key`
pub const CLIENTLESS_KEY: Setting<Option<PathBuf>> = Setting::new(
    "clientless.key",
    Form::Text("a file (PEM)"),
    |_| None,
    |value, form| form.path(value).map(Some),
    |path| Some(quoted(&path.as_ref()?.display().to_string())),
)
.default_text("none")
.meaning("private key of `clientless.certificate`")
.reason("The file is read again when it changes");
