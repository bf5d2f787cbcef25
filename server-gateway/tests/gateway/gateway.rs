//! A real gateway with its own state directory.
use std::net::SocketAddr;

use longhaul_gateway::{
    Server,
    cli::SettingArgs,
    config::{Environment, resolve},
    devices::Devices,
    state::{GatewayKeys, StateDir, random_key},
};
use longhaul_types::SecretKey;
use tokio::{sync::oneshot, task::JoinHandle};

pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: SocketAddr,
    pub(crate) state: StateDir,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
    _home: tempfile::TempDir,
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let settings = SettingArgs {
            listen: Some("127.0.0.1:0".to_owned()),
            state_dir: Some(home.path().join("state").to_str().unwrap().to_owned()),
            resolve: vec!["*.test=127.0.0.1".to_owned()],
            metrics: Some("127.0.0.1:0".to_owned()),
            ..SettingArgs::default()
        };
        let (config, _) = resolve(&settings, &Environment::new()).unwrap();
        let server = Server::bind(&config).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let (address, metrics) = (server.local_addr(), server.metrics_addr().unwrap());
        let task = tokio::spawn(server.run(async {
            let _dropped = stopped.await;
        }));
        let state = StateDir::open(&config.state_dir).unwrap();
        Self {
            address,
            metrics,
            state,
            stop: Some(stop),
            task: Some(task),
            _home: home,
        }
    }

    pub(crate) fn keys(&self) -> GatewayKeys {
        self.state.keys().unwrap()
    }

    /// Admits a device as another process would; the running gateway knows it within a second.
    pub(crate) fn admit(&self, name: &str) -> SecretKey {
        let device = random_key().unwrap();
        let public = device.public();
        Devices::update(&self.state, |devices| {
            devices.add(name, public, std::time::SystemTime::now())
        })
        .unwrap();
        device
    }

    pub(crate) async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.take().unwrap().await.unwrap();
    }
}
