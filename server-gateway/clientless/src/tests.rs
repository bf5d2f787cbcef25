//! The proxy of a real gateway, for the tests of its parts.
use std::{
    net::{IpAddr, Ipv4Addr},
    time::SystemTime,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, header::PROXY_AUTHORIZATION};
use longhaul_driver::EndpointCounters;
use longhaul_gateway_core::{
    admin::session_ledger::SessionLedger,
    admission::{
        clients::{Clients, PasswordKey},
        state::StateDir,
    },
    config::{SettingArgs, resolve, settings},
    logins::Logins,
    start::{GatewayParts, new_gateway, origin_client},
};
use longhaul_http::request_context::CredentialsSecret;
use longhaul_session::Announcement;
use longhaul_settings::Environment;
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::{access::Security, fetch::ConnectionState, stream::PacedStream, *};

/// A client of this machine.
pub(super) const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A proxy without open ports: tests give it connections.
pub(super) struct Proxy {
    pub(super) shared: Arc<Clientless>,
    state: StateDir,
    _home: tempfile::TempDir,
}

impl Proxy {
    /// A proxy that serves this machine, with changed settings. Names in `.test` are at this machine.
    pub(super) fn new(change: impl FnOnce(SettingArgs) -> SettingArgs) -> Self {
        let home = tempfile::tempdir().unwrap();
        let flags = SettingArgs::default()
            .with(&settings::LISTEN, "127.0.0.1:0")
            .with(&settings::STATE_DIR, home.path().join("state").to_str().unwrap())
            .with(&settings::FETCH_RESOLVE, "*.test=127.0.0.1")
            .with(&settings::METRICS_LISTEN, "127.0.0.1:0")
            .with(&settings::CLIENTLESS_PORTS, "80,443,1024-65535")
            .with(&settings::CLIENTLESS_ALLOW, "127.0.0.0/8");
        let (config, _) = resolve(&change(flags), &Environment::new()).unwrap();
        let names = Arc::new(BoostedNames::new(&config.dns));
        let state = StateDir::open(&config.state_dir).unwrap();
        let key = PasswordKey::derived_from(&state.keys().unwrap().secret);
        let access = Arc::new(Access::new(&config.clientless, &state, key).unwrap());
        let parts = GatewayParts {
            origin: origin_client(&config).unwrap(),
            credentials: CredentialsSecret::derived_from(&[1; 32]),
            announcement: Announcement::default(),
            handshakes: watch::channel(EndpointCounters::default()).1,
            ledger: SessionLedger::default(),
            own_ports: Vec::new(),
            own_udp_ports: Vec::new(),
            quic_drops: None,
        };
        let gateway = Arc::new(new_gateway(&config, parts).unwrap());
        let shared = Clientless::new(gateway, config.clientless, access, names);
        Self {
            shared: Arc::new(shared),
            state,
            _home: home,
        }
    }

    /// A proxy with a name server, whose names (with commas) lead to this machine.
    pub(super) fn with_names(names: &str) -> Self {
        Self::new(|flags| {
            flags
                .with(&settings::DNS_LISTEN, "127.0.0.1:0")
                .with(&settings::DNS_NAMES, names)
        })
    }

    /// Adds a client with this name; returns the fields of its requests.
    pub(super) fn add_client(&self, name: &str) -> HeaderMap {
        let key = PasswordKey::derived_from(&self.state.keys().unwrap().secret);
        let password = Clients::add(&self.state, &key, name, SystemTime::now()).unwrap();
        authorization(name, &password)
    }

    /// Removes a client, as another process does.
    pub(super) fn remove_client(&self, name: &str) {
        Clients::remove(&self.state, name).unwrap();
    }

    /// State of a new connection from this address.
    pub(super) fn connection(&self, address: IpAddr) -> Arc<ConnectionState> {
        Arc::new(ConnectionState {
            shared: Arc::clone(&self.shared),
            peer: Peer {
                address,
                security: Security::Tls,
            },
            logins: Logins::default(),
            browser: Mutex::default(),
        })
    }
}

/// The field that states a name and a password.
pub(super) fn authorization(name: &str, password: &str) -> HeaderMap {
    let value = format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
    HeaderMap::from_iter([(PROXY_AUTHORIZATION, HeaderValue::from_str(&value).unwrap())])
}

/// The connection of a client as the proxy sees it, and as the client does.
pub(super) async fn connection() -> (PacedStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let accepted = accepted.unwrap().0;
    accepted.writable().await.unwrap();
    (PacedStream::new(accepted), client.unwrap())
}
