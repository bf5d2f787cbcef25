//! The running agent with all its components.
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use arc_swap::ArcSwap;

use longhaul_origin::{OriginClient, OriginConfigError};
use longhaul_service::{LivenessProbe, liveness_probe};
use longhaul_session::{ImageLevel, Mixing, Preferences};
use longhaul_types::Technique;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tracing::{info, warn};

use crate::{
    acceleration::{Acceleration, PushPolicy},
    config::{AwaySettings, Config, EarlyCredentials, Fallback, PushSettings},
    connection::{BindError, bind},
    control::{self, Control, ControlToken, Live, NoRandomness},
    counters::Counters,
    forget::{DeletionQueue, KeptData},
    gateway::{Gateway, GatewayConfig},
    handles::Handles,
    history::History,
    holdout::HoldOut,
    https::{AuthorityError, Https},
    images::ImageSettings,
    journal::Journal,
    listener::{self, AccessRules},
    networks::NetworkMemory,
    pageload::PageLoads,
    rules::{RulesError, SiteRules},
    state_dir::{AgentFile, StateDir, StateError},
    state_lock::{LockError, StateLock},
    store::{FramedSites, Storage, Store, credentials_secret},
    upstream::{
        AwayRules, Queue, Upstream, UpstreamRules, WaitingPages, WorkingHosts, direct, local as local_hosts,
    },
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
    /// The rules for sites cannot be used.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// Another agent uses the state directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The client for direct fetches cannot be created.
    #[error("the client for direct requests cannot be created: {0}")]
    Direct(#[from] OriginConfigError),
    /// The device's certificate authority, which accelerated HTTPS requires, cannot be opened or created.
    #[error("HTTPS cannot be accelerated: {0}")]
    Authority(#[from] AuthorityError),
    /// The secret of the cache cannot be made.
    #[error("the system provides no random numbers: {0}")]
    Randomness(#[source] getrandom::Error),
    /// The control port's token cannot be created.
    #[error("the control port's token cannot be created: {0}")]
    Token(#[from] NoRandomness),
}

/// Errors of applying changed settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The client for direct fetches does not accept the settings.
    #[error("the client for direct requests cannot be changed: {0}")]
    Direct(#[from] OriginConfigError),
    /// The device's certificate authority, which accelerated HTTPS requires, cannot be opened or created.
    #[error("HTTPS cannot be accelerated: {0}")]
    Authority(#[from] AuthorityError),
}

/// A running agent. Dropping it stops it without closing the session; [`Agent::stop`] closes the session.
#[derive(Debug)]
pub struct Agent {
    proxy: SocketAddr,
    control: Arc<Control>,
    state_dir: StateDir,
    tasks: JoinSet<()>,
    /// Probes of the tasks that accept connections.
    accepting: [LivenessProbe; 2],
    /// Image level of the settings; the level in force may be another one, chosen on the dashboard.
    configured_images: Mutex<ImageLevel>,
    /// Dropped last: until then, the files of the state directory are this agent's.
    _lock: StateLock,
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
        let lock = StateLock::take(&state_dir).await?;
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
        if !config.without.is_empty() {
            warn!(without = %config.without, "techniques are switched off for measurements");
        }
        let access = AccessRules::new(config.access);
        let upstream_rules = upstream_rules(config.fallback, config.early_credentials, config.away);
        let own = [proxy, control_address];
        let carrier = config
            .carrier
            .without_own_ports(own.map(|address| address.port()));
        let direct = direct::client(&config.direct_allow, &own, carrier.proxy.clone())?;
        let at_portal = direct::config_at_portal(&config.direct_allow, &own, carrier.proxy.clone());
        let at_portal = OriginClient::new(at_portal)?;
        let local = OriginClient::new(local_hosts::config(&config.direct_allow, &own))?;
        let rules = SiteRules::open(&state_dir)?;
        let https = Https::open(config.https, rules.clone(), &state_dir)?;
        let credentials_secret = credentials_secret::load(&state_dir, &config.cache.dir, &config.invite)
            .map_err(StartError::Randomness)?;
        let store = Store::open(config.cache.dir, config.cache.size).await;
        let counters = Arc::new(Counters::default());
        let page_loads = PageLoads::new(store.clone(), Arc::clone(&counters), config.push.linger);
        let preferences = watch::Sender::new(Preferences {
            images: config.images,
            mixing: if config.without.contains(Technique::Mixing) {
                Mixing::Refused
            } else {
                Mixing::Accepted
            },
            ..Preferences::default()
        });
        // `use_invite` replaces only the invite of the state directory.
        let is_enrolled_by_file = state_dir
            .invite()
            .is_ok_and(|kept| kept.to_line() == config.invite.to_line());
        let networks = if config.remember_links {
            NetworkMemory::open(state_dir.clone())
        } else {
            NetworkMemory::off()
        };
        let gateway = Gateway::start(GatewayConfig {
            invite: config.invite,
            link: config.link,
            carrier: carrier.clone(),
            metered: config.metered,
            networks: networks.clone(),
            portal: config.portal,
            preferences: preferences.subscribe(),
            rules: rules.clone(),
            https: https.clone(),
            state_dir: state_dir.clone(),
            store: store.clone(),
            page_streams: Arc::new(page_loads.clone()),
            without: config.without,
        });
        let history = History::open(state_dir.path(), Arc::clone(&counters), gateway.clone()).await;
        let journal = Journal::open(state_dir.path(), config.keep_journal).await;
        let hold_out = HoldOut::new(
            config.hold_out,
            config.metered,
            gateway.clone(),
            (networks.clone(), state_dir.clone()),
            credentials_secret.as_bytes(),
        );
        let waiting_pages = WaitingPages::default();
        let kept = KeptData {
            waiting_pages: waiting_pages.clone(),
            store: store.clone(),
            loads: page_loads.clone(),
            networks,
            history: history.clone(),
            journal: journal.clone(),
            hold_out: hold_out.clone(),
        };
        let deletions = DeletionQueue::start(kept, state_dir.clone(), &gateway);
        let handles = Handles {
            upstream: Arc::new(Upstream {
                gateway,
                direct,
                at_portal,
                local,
                certificates: carrier.certificates,
                tls_port: carrier.tls_port,
                http_proxy: carrier.proxy,
                rules: ArcSwap::from_pointee(upstream_rules),
                site_rules: rules.clone(),
                hold_out,
                working_hosts: WorkingHosts::default(),
                waiting_pages,
            }),
            storage: Arc::new(Storage {
                store,
                credentials_secret,
                framed_sites: FramedSites::default(),
            }),
            acceleration: Arc::new(Acceleration {
                without: config.without,
                page_loads,
                push: ArcSwap::from_pointee(push_policy(config.push)),
                https,
                images: ImageSettings::new(preferences, rules.clone()),
            }),
            counters,
            journal,
        };
        let control = Arc::new(Control {
            handles: handles.clone(),
            deletions,
            history: history.clone(),
            live: Live::default(),
            proxy: reachable(proxy),
            address: control_address,
            started: Instant::now(),
            access: access.clone(),
            metered: config.metered,
            measuring: tokio::sync::Mutex::default(),
            token: ControlToken::make()?,
            state_dir: state_dir.clone(),
            is_enrolled_by_file,
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
        tasks.spawn(rules.clone().run());
        tasks.spawn(control.handles.acceleration.https.clone().follow(rules));
        tasks.spawn(history.run());
        tasks.spawn(control.handles.upstream.hold_out.clone().run());
        tasks.spawn(control.handles.journal.clone().run());
        tasks.spawn(control::sample(Arc::clone(&control)));
        let (proxy_probe, probed) = liveness_probe();
        let serving = listener::serve(proxy_listener, handles, access, reachable(proxy));
        tasks.spawn(probed.during(serving));
        let (control_probe, probed) = liveness_probe();
        tasks.spawn(probed.during(control::serve(control_listener, Arc::clone(&control))));
        // The address contains the token, which no log may contain.
        info!("the agent is ready; `longhaul-agent status` prints the address of its dashboard");
        Ok(Self {
            proxy,
            control,
            state_dir,
            tasks,
            accepting: [proxy_probe, control_probe],
            configured_images: Mutex::new(config.images),
            _lock: lock,
        })
    }

    /// Applies the settings that may change while the agent runs to new requests and connections. Those in
    /// progress keep the settings with which they began. Settings that take effect at the next start are
    /// ignored.
    ///
    /// # Errors
    /// See [`ReloadError`]; then nothing changes.
    pub fn reload(&self, config: Config) -> Result<(), ReloadError> {
        let Handles {
            upstream,
            acceleration,
            ..
        } = &self.control.handles;
        let own_ports = [self.proxy, self.control.address];
        // The steps that can fail come first; the second one cannot fail without `extra-ca`, which an agent
        // does not have.
        acceleration.https.reconfigure(config.https)?;
        upstream.direct.reconfigure(direct::config(
            &config.direct_allow,
            &own_ports,
            upstream.http_proxy.clone(),
        ))?;
        upstream
            .local
            .reconfigure(local_hosts::config(&config.direct_allow, &own_ports))?;
        upstream.at_portal.reconfigure(direct::config_at_portal(
            &config.direct_allow,
            &own_ports,
            upstream.http_proxy.clone(),
        ))?;
        let rules = upstream_rules(config.fallback, config.early_credentials, config.away);
        upstream.rules.store(Arc::new(rules));
        acceleration.push.store(Arc::new(push_policy(config.push)));
        self.control.access.set(config.access);
        let mut configured = self.configured_images.lock();
        // A level that the user chose on the dashboard stays, unless the settings name another one.
        if std::mem::replace(&mut *configured, config.images) != config.images {
            acceleration.images.set_level(config.images);
        }
        Ok(())
    }

    /// Completes when the tasks on which every page depends have answered: those that accept connections of
    /// browsers and of the control port, the one that keeps the session open, and the one that runs it.
    pub async fn answered(&self) {
        for probe in &self.accepting {
            probe.answered().await;
        }
        self.control.handles.upstream.gateway.answered().await;
    }

    /// Completes when one of the tasks that accept connections, or the one that keeps the session open, has
    /// ended by itself.
    pub async fn ended(&self) {
        let [proxy, control] = &self.accepting;
        tokio::select! {
            () = proxy.ended() => {}
            () = control.ended() => {}
            () = self.control.handles.upstream.gateway.ended() => {}
        }
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
        self.control.history.add(Duration::ZERO).await;
        self.control.handles.journal.write(false).await;
        self.control.handles.upstream.hold_out.write().await;
        self.control.handles.upstream.gateway.close().await;
        self.control.handles.storage.store.close().await;
        self.state_dir.withdraw();
    }
}

fn upstream_rules(
    fallback: Fallback,
    early_credentials: EarlyCredentials,
    away: AwaySettings,
) -> UpstreamRules {
    UpstreamRules {
        fallback_after: match fallback {
            Fallback::After(time) => Some(time),
            Fallback::Never => None,
        },
        allows_early_cookies: early_credentials == EarlyCredentials::Allowed,
        away: AwayRules {
            page_after: away.page_after,
            queue: if away.queue {
                Queue::Keep(away.queue_time)
            } else {
                Queue::Off
            },
        },
    }
}

const fn push_policy(settings: PushSettings) -> PushPolicy {
    PushPolicy {
        enabled: settings.enabled,
        stall_timeout: settings.patience,
        head_after: settings.head_after,
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
