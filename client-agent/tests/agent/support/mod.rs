//! Test support: a gateway of the real transport and session messages, with faults that a test selects; an
//! agent.
pub(crate) mod gateway;
pub(crate) mod origin;
pub(crate) mod script;

use std::time::Duration;

use longhaul_agent::{
    agent::Agent,
    config::{
        AwaySettings, CacheSettings, Config, DEFAULT_IMAGE_LEVEL, EarlyCredentials, Fallback, PushSettings,
    },
    dashboard::Status,
    gateway::{CarrierSettings, Carriers, GatewayState, PortalCheck, PortalSettings},
    holdout::HoldOutSetting,
    https::HttpsSettings,
    listener::Access,
    networks::Metered,
};
use longhaul_raw_client::{RawClient, RawResponse};
use longhaul_service::{LogFilter, LogFormat};
use longhaul_types::{ByteCount, Invite, PublicKey, SecretKey, UnixTime};
use tempfile::TempDir;
use tokio::task::JoinHandle;

pub(crate) use gateway::TestGateway;

/// A field of every browser: a program that is none reaches local addresses past the gateway.
const OF_BROWSER: &str = "user-agent: Mozilla/5.0\r\n";

/// Timeout of any wait in a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn device() -> SecretKey {
    SecretKey::from_bytes([2; 32])
}

pub(crate) fn gateway_secret() -> SecretKey {
    SecretKey::from_bytes([1; 32])
}

/// An agent of the test gateway, with its own state directory.
pub(crate) struct TestAgent {
    pub(crate) agent: Agent,
    pub(crate) dir: TempDir,
}

impl TestAgent {
    pub(crate) async fn start(address: &str, fallback: Fallback) -> Self {
        Self::enrolled(address, gateway_secret().public(), device(), fallback).await
    }

    pub(crate) async fn enrolled(
        address: &str,
        key: PublicKey,
        device: SecretKey,
        fallback: Fallback,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let agent = Agent::start(config(&dir, address, key, device, fallback))
            .await
            .unwrap();
        Self { agent, dir }
    }

    /// Starts an agent with other settings, in a directory that another agent may have used.
    pub(crate) async fn in_dir(dir: TempDir, address: &str, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(
            &dir,
            address,
            gateway_secret().public(),
            device(),
            Fallback::Never,
        );
        change(&mut config);
        let agent = Agent::start(config).await.unwrap();
        Self { agent, dir }
    }

    /// Applies changed settings to the running agent, as a reload does.
    pub(crate) fn reload(&self, address: &str, change: impl FnOnce(&mut Config)) {
        let key = gateway_secret().public();
        let mut changed = config(&self.dir, address, key, device(), Fallback::Never);
        change(&mut changed);
        self.agent.reload(changed).unwrap();
    }

    /// Stops the agent and keeps its directory.
    pub(crate) async fn stop(self) -> TempDir {
        self.agent.stop().await;
        self.dir
    }

    /// Starts a GET with additional fields; the returned task waits for its response.
    pub(crate) fn begin(&self, url: &str, fields: &[(&str, &str)]) -> JoinHandle<RawResponse> {
        let proxy = self.agent.proxy();
        let fields: String = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let request = format!("GET {url} HTTP/1.1\r\nhost: ignored\r\n{OF_BROWSER}{fields}\r\n");
        tokio::spawn(async move {
            let mut client = RawClient::connect(proxy).await.unwrap();
            client.send(request).await.unwrap();
            client.response().await.unwrap()
        })
    }

    /// Waits until the status satisfies a condition.
    pub(crate) async fn until(&self, what: &str, shows: impl Fn(&Status) -> bool) -> Status {
        let started = tokio::time::Instant::now();
        let mut look = tokio::time::interval(Duration::from_millis(1));
        loop {
            look.tick().await;
            let status = self.status();
            if shows(&status) {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "timeout: {what}; {status:?}");
        }
    }

    /// Returns the count of a phase exit.
    pub(crate) fn exits(&self, name: &str) -> u64 {
        self.status().exits.get(name).copied().unwrap_or(0)
    }

    pub(crate) async fn connect(&self) -> RawClient {
        RawClient::connect(self.agent.proxy()).await.unwrap()
    }

    pub(crate) async fn get(&self, url: &str) -> RawResponse {
        let mut client = self.connect().await;
        client
            .send(format!("GET {url} HTTP/1.1\r\nhost: ignored\r\n{OF_BROWSER}\r\n"))
            .await
            .unwrap();
        client.response().await.unwrap()
    }

    /// Like [`Self::get`], and triggers midway the fault that the gateway has prepared.
    pub(crate) async fn get_released(&self, url: &str, gateway: &TestGateway) -> RawResponse {
        let mut client = self.connect().await;
        client
            .send(format!("GET {url} HTTP/1.1\r\nhost: ignored\r\n{OF_BROWSER}\r\n"))
            .await
            .unwrap();
        client.response_with(|| gateway.release()).await.unwrap()
    }

    pub(crate) fn status(&self) -> Status {
        self.agent.control().status()
    }

    /// Waits for a state of the session.
    pub(crate) async fn reach(&self, state: GatewayState) {
        let mut view = self.agent.control().handles.upstream.gateway.watch();
        let reached = view.wait_for(|view| view.state == state);
        drop(
            tokio::time::timeout(PATIENCE, reached)
                .await
                .expect("timeout: state of the session")
                .unwrap(),
        );
    }
}

pub(crate) fn invite(address: &str, key: PublicKey, device: SecretKey) -> Invite {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let expiry = UnixTime::new(now + Duration::from_secs(24 * 3600));
    let token = gateway::epoch().mint(&device.public(), [1, 2, 3, 4], expiry);
    Invite::new(address.to_owned(), key, device, token).unwrap()
}

pub(crate) fn config(
    dir: &TempDir,
    address: &str,
    key: PublicKey,
    device: SecretKey,
    fallback: Fallback,
) -> Config {
    Config {
        log: LogFilter::default(),
        log_format: LogFormat::Auto,
        listen: "127.0.0.1:0".parse().unwrap(),
        access: Access::default(),
        // The origins of tests are on this machine.
        direct_allow: vec!["127.0.0.0/8".parse().unwrap()],
        control: "127.0.0.1:0".parse().unwrap(),
        state_dir: dir.path().join("state"),
        invite: invite(address, key, device),
        link: None,
        remember_links: true,
        keep_journal: false,
        hold_out: HoldOutSetting::default(),
        metered: Metered::No,
        // The tests script the gateway's UDP port alone.
        carrier: CarrierSettings {
            carriers: Carriers::UDP,
            ..CarrierSettings::default()
        },
        portal: PortalSettings {
            port: 9,
            check: PortalCheck::Off,
        },
        images: DEFAULT_IMAGE_LEVEL,
        fallback,
        away: AwaySettings::default(),
        cache: CacheSettings {
            size: ByteCount::mib(16),
            dir: dir.path().join("cache"),
        },
        push: PushSettings::default(),
        https: HttpsSettings::default(),
        early_credentials: EarlyCredentials::default(),
        without: Default::default(),
    }
}

/// Starts a gateway and an agent with an open session.
pub(crate) async fn pair() -> (TestGateway, TestAgent) {
    let gateway = TestGateway::start();
    let agent = TestAgent::start(&gateway.address(), Fallback::Never).await;
    agent.reach(GatewayState::Open).await;
    (gateway, agent)
}
