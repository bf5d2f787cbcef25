//! The running agent with all its components.
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use longhaul_http::request_context::CredentialsSecret;
use longhaul_origin::OriginConfigError;
use longhaul_session::{Mixing, Preferences};
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tracing::{info, warn};

use crate::{
    acceleration::{Acceleration, PushPolicy},
    config::{Config, EarlyCredentials, Fallback, PushSettings},
    connection::{BindError, bind},
    control::{self, Control, ControlToken, NoRandomness},
    control_client,
    counters::Counters,
    forget::DeletionQueue,
    gateway::{Gateway, GatewayConfig},
    handles::Handles,
    https::{AuthorityError, Https},
    images::ImageSettings,
    listener,
    pageload::PageLoads,
    state_dir::{AgentFile, StateDir, StateError},
    store::{FramedSites, Storage, Store},
    upstream::{Upstream, WorkingHosts, direct},
};

/// Errors of starting an agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The state directory cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// The client for direct fetches cannot be created.
    #[error("the client for direct requests cannot be created: {0}")]
    Direct(#[from] OriginConfigError),
    /// The device's certificate authority, which accelerated HTTPS requires, cannot be opened or created.
    #[error("HTTPS cannot be accelerated: {0}")]
    Authority(#[from] AuthorityError),
    /// The control port's token cannot be created.
    #[error("the control port's token cannot be created: {0}")]
    Token(#[from] NoRandomness),
}

/// A running agent. Dropping it stops it without closing the session; [`Agent::stop`] closes the session.
#[derive(Debug)]
pub struct Agent {
    proxy: SocketAddr,
    control: Arc<Control>,
    state_dir: StateDir,
    tasks: JoinSet<()>,
}

impl Agent {
    /// Opens the ports, publishes them in the state directory, and starts to dial. Browsers can connect when
    /// the call returns.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let state_dir = StateDir::new(config.state_dir);
        state_dir.create()?;
        let proxy_listener = bind(config.listen, "the proxy port", "listen").await?;
        let control_listener = bind(config.control, "the control port", "control").await?;
        let proxy = proxy_listener.local_addr().unwrap_or(config.listen);
        let control_address = control_listener.local_addr().unwrap_or(config.control);
        if !proxy.ip().to_canonical().is_loopback() {
            warn!(
                "the proxy port can be reached from other machines: any machine in `listen.allow` with a password of \
                 `listen.password-file` can use the gateway, and passwords cross that network unencrypted"
            );
        }
        let access = Arc::new(config.access);
        let direct = direct::client(&config.direct_allow, &[proxy, control_address])?;
        let https = Https::open(config.https, &state_dir)?;
        let store = Store::open(config.cache.dir, config.cache.size).await;
        let counters = Arc::new(Counters::default());
        let page_loads = PageLoads::new(store.clone(), Arc::clone(&counters), config.push.linger);
        let preferences = watch::Sender::new(Preferences {
            images: config.images,
            mixing: Mixing::Accepted,
            ..Preferences::default()
        });
        let credentials_secret = CredentialsSecret::derived_from(config.invite.device().as_bytes());
        let gateway = Gateway::start(GatewayConfig {
            invite: config.invite,
            link: config.link,
            preferences: preferences.subscribe(),
            https: https.clone(),
            state_dir: state_dir.clone(),
            store: store.clone(),
            page_streams: Arc::new(page_loads.clone()),
        });
        let deletions = DeletionQueue::start(store.clone(), page_loads.clone(), state_dir.clone(), &gateway);
        let handles = Handles {
            upstream: Arc::new(Upstream {
                gateway,
                direct,
                fallback_after: match config.fallback {
                    Fallback::After(time) => Some(time),
                    Fallback::Never => None,
                },
                allows_early_cookies: config.early_credentials == EarlyCredentials::Allowed,
                working_hosts: WorkingHosts::default(),
            }),
            storage: Arc::new(Storage {
                store,
                credentials_secret,
                framed_sites: FramedSites::default(),
            }),
            acceleration: Arc::new(Acceleration {
                page_loads,
                push: push_policy(config.push),
                https,
                images: ImageSettings::new(preferences),
            }),
            counters,
        };
        let control = Arc::new(Control {
            handles: handles.clone(),
            deletions,
            proxy: reachable(proxy),
            address: control_address,
            started: Instant::now(),
            access: Arc::clone(&access),
            token: ControlToken::make()?,
        });
        let token = control.token.to_hex();
        state_dir.keep_control_token(&token)?;
        state_dir.publish(&AgentFile {
            proxy: reachable(proxy),
            control: control_address,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })?;
        let mut tasks = JoinSet::new();
        tasks.spawn(listener::serve(proxy_listener, handles, access, reachable(proxy)));
        tasks.spawn(control::serve(control_listener, Arc::clone(&control)));
        info!(
            "status page: {}",
            control_client::status_page(control_address, Some(&token))
        );
        Ok(Self {
            proxy,
            control,
            state_dir,
            tasks,
        })
    }

    /// Address of the proxy.
    pub const fn proxy(&self) -> SocketAddr {
        self.proxy
    }

    /// The control port, with the status.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Stops the agent: accepts no more connections, closes the session, and removes its files from the state
    /// directory.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        self.control.handles.upstream.gateway.close().await;
        self.control.handles.storage.store.close().await;
        self.state_dir.withdraw();
    }
}

const fn push_policy(settings: PushSettings) -> PushPolicy {
    PushPolicy {
        enabled: settings.enabled,
        stall_timeout: settings.patience,
        reordering: settings.reordering,
        leaving: settings.leaving,
    }
}

/// Returns an address at which this machine reaches a listening socket.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V4(_) | IpAddr::V6(_) => address.ip(),
    };
    SocketAddr::new(ip, address.port())
}
