//! Errors of connections through a proxy.

/// Errors of [`HttpProxy::tunnel`](crate::HttpProxy::tunnel).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// No answer to CONNECT in time.
    #[error(
        "the proxy does not answer: it is overloaded, or it cannot reach the other side; ask whoever runs it, or \
         correct `carrier.proxy`"
    )]
    Silent,
    /// Status 407.
    #[error("{}", credentials_text(*were_sent, methods))]
    Credentials {
        /// The request contained a name and a password.
        were_sent: bool,
        /// The methods that the proxy offers.
        methods: String,
    },
    /// Status 403, or another one by which a proxy refuses.
    #[error(
        "the proxy forbids the connection (status {0}): its administrator has to permit CONNECT to this host and port"
    )]
    Forbidden(u16),
    /// The name of the proxy cannot be looked up, or nothing accepts connections there; contains the system's error.
    #[error(
        "the proxy cannot be reached ({0}): correct `carrier.proxy`, or use a network that has this proxy"
    )]
    NotReached(String),
    /// Another program answers; contains the status of an HTTP server.
    #[error(
        "what answers at the proxy's address is no proxy for CONNECT{}: correct the address in `carrier.proxy`",
        .0.map(|status| format!(" (status {status})")).unwrap_or_default()
    )]
    NotAProxy(Option<u16>),
    /// Status 502, 503, 504 or another 5xx.
    #[error(
        "the proxy works, but cannot connect further (status {0}): nothing answers on the other side, or its \
         administrator has to let the proxy connect there"
    )]
    NoWay(u16),
    /// The address is a port of the agent itself.
    #[error("the address of the proxy is the agent itself: correct `carrier.proxy`")]
    Agent,
}

/// The party that has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The settings of this computer.
    Settings,
    /// The administrator of the proxy.
    Administrator,
    /// The other side: what the proxy could not reach.
    Destination,
}

impl ProxyError {
    /// The party that has to act.
    pub const fn whose(&self) -> Whose {
        match self {
            Self::Credentials { .. } | Self::NotReached(_) | Self::NotAProxy(_) | Self::Agent => {
                Whose::Settings
            }
            Self::Forbidden(_) | Self::Silent => Whose::Administrator,
            Self::NoWay(_) => Whose::Destination,
        }
    }

    /// The kind, for tools.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Agent => "proxy_is_agent",
            Self::Credentials { .. } => "proxy_credentials",
            Self::Forbidden(_) => "proxy_forbids",
            Self::NoWay(_) => "proxy_no_way",
            Self::NotAProxy(_) => "proxy_not_a_proxy",
            Self::NotReached(_) | Self::Silent => "proxy_not_reached",
        }
    }
}

fn credentials_text(were_sent: bool, methods: &str) -> String {
    let has_basic = methods
        .split(", ")
        .any(|method| method.eq_ignore_ascii_case("basic"));
    if !has_basic && !methods.is_empty() {
        return format!(
            "the proxy wants a login by {methods}, which Longhaul does not support: run a local proxy that does, such as \
             cntlm, and name it in `carrier.proxy`"
        );
    }
    if were_sent {
        "the proxy does not accept the name and password of `carrier.proxy` or `carrier.proxy-password-file`: correct \
         them"
            .to_owned()
    } else {
        "the proxy wants a name and a password: write them as `name:password` into a file, and name it in \
         `carrier.proxy-password-file`"
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_says_what_to_do() {
        let wanted = |were_sent, methods: &str| {
            ProxyError::Credentials {
                were_sent,
                methods: methods.to_owned(),
            }
            .to_string()
        };
        assert!(wanted(false, "Basic").contains("wants a name and a password"));
        assert!(wanted(true, "NTLM, Basic").contains("does not accept"));
        assert!(wanted(true, "NTLM").contains("does not support"));
        assert!(wanted(false, "").contains("proxy-password-file"));
        let text = ProxyError::NotAProxy(Some(404)).to_string();
        assert!(text.contains("(status 404)") && !ProxyError::NotAProxy(None).to_string().contains("status"));
    }
}
