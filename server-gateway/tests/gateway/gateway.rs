//! A real gateway with its own state directory.
use std::net::SocketAddr;

use longhaul_gateway::{Server, ServerControl};
use longhaul_gateway_core::{
    admission::{
        devices::Devices,
        state::{GatewayKeys, StateDir, random_key},
    },
    config::{Environment, SettingArgs, resolve, settings},
};
use longhaul_types::SecretKey;
use tokio::{sync::oneshot, task::JoinHandle};

#[cfg_attr(
    not(feature = "clientless"),
    allow(
        dead_code,
        reason = "only tests of clients without an agent use their addresses"
    )
)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: SocketAddr,
    /// Address of the proxy for clients without an agent, if it is on.
    pub(crate) clientless: Option<SocketAddr>,
    /// Address of the same proxy inside TLS, if it is on.
    pub(crate) clientless_tls: Option<SocketAddr>,
    /// Addresses for redirected connections.
    pub(crate) transparent: Vec<SocketAddr>,
    /// Address of the name server, if it is on.
    pub(crate) dns: Option<SocketAddr>,
    pub(crate) state: StateDir,
    pub(crate) control: ServerControl,
    flags: SettingArgs,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
    home: Option<tempfile::TempDir>,
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), |_| {}).await
    }

    /// Starts a gateway in this directory with changed flags.
    pub(crate) async fn start_in(home: tempfile::TempDir, change: impl FnOnce(&mut SettingArgs)) -> Self {
        let state_dir = home.path().join("state");
        let mut flags = SettingArgs::default()
            .with(&settings::LISTEN, "127.0.0.1:0")
            .with(&settings::STATE_DIR, state_dir.to_str().unwrap())
            .with(&settings::FETCH_RESOLVE, "*.test=127.0.0.1")
            .with(&settings::METRICS_LISTEN, "127.0.0.1:0");
        change(&mut flags);
        let (config, _) = resolve(&flags, &Environment::new()).unwrap();
        let server = Server::bind(&config).await.unwrap();
        let control = server.control();
        let (stop, stopped) = oneshot::channel();
        let (address, metrics) = (server.local_addr(), server.metrics_addr().unwrap());
        let clientless = server.clientless_addr();
        let clientless_tls = server.clientless_tls_addr();
        let (transparent, dns) = (server.clientless_transparent_addrs(), server.dns_addr());
        let task = tokio::spawn(server.run(async {
            let _dropped = stopped.await;
        }));
        let state = StateDir::open(&config.state_dir).unwrap();
        Self {
            address,
            metrics,
            clientless,
            clientless_tls,
            transparent,
            dns,
            state,
            control,
            flags,
            stop: Some(stop),
            task: Some(task),
            home: Some(home),
        }
    }

    /// Applies changed flags to the running gateway, as a reload does.
    pub(crate) async fn reload(&self, change: impl FnOnce(&mut SettingArgs)) {
        let mut flags = self.flags.clone();
        change(&mut flags);
        let (config, _) = resolve(&flags, &Environment::new()).unwrap();
        self.control.reload(&config).await.unwrap();
    }

    /// The directory of all its files.
    pub(crate) fn folder(&self) -> std::path::PathBuf {
        self.home.as_ref().unwrap().path().to_owned()
    }

    pub(crate) fn keys(&self) -> GatewayKeys {
        self.state.keys().unwrap()
    }

    /// Admits a device as another process would; the running gateway notices it within a second.
    pub(crate) fn admit(&self, name: &str) -> SecretKey {
        let device = random_key().unwrap();
        let public = device.public();
        Devices::update(&self.state, |devices| {
            let others = devices.iter().count();
            let now = std::time::SystemTime::now();
            devices
                .add(name, public, now)
                .or_else(|_| devices.add(&format!("{name} {others}"), public, now))
        })
        .unwrap();
        device
    }

    /// Stops the gateway; its files remain until the returned directory is dropped.
    pub(crate) async fn stop(mut self) -> tempfile::TempDir {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.take().unwrap().await.unwrap();
        self.home.take().unwrap()
    }
}
