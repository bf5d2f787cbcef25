//! Troubles that another party of the hop causes: a gateway of another version or without room, and a second
//! agent with the same key.
use longhaul_driver::{
    DeviceStatus, EarlyData, End, EpochKeys, ListenConfig, OpenOptions, Priority, TransportConfig, listen,
};
use longhaul_session::{Message, MirrorState, VersionRange, Welcome, encode};
use longhaul_types::{Invite, SecretKey};
use tokio::{net::UdpSocket, task::JoinHandle};

use super::*;
use crate::pair::LIMIT;

/// A peer that ends with the test.
struct Peer {
    line: String,
    task: JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn keys() -> [SecretKey; 2] {
    [8, 7].map(|byte| SecretKey::from_bytes([byte; 32]))
}

fn line_to(address: SocketAddr) -> Result<String> {
    let [gateway, device] = keys();
    Ok(Invite::new(address.to_string(), gateway.public(), device, [0; 32])?.to_line())
}

/// A gateway that knows only version 9 of the transport (docs/protocol/transport.md section 3.4).
async fn gateway_of_another_transport() -> Result<Peer> {
    const INIT: u8 = 1;
    const VERSIONS: u8 = 3;
    let socket = UdpSocket::bind(("127.0.0.1", 0)).await?;
    let line = line_to(socket.local_addr()?)?;
    let task = tokio::spawn(async move {
        let mut init = [0; 2048];
        while let Ok((length, agent)) = socket.recv_from(&mut init).await {
            // The index of the agent is the fourth byte; a look for ICMP errors has one byte.
            if length > 3 && init[0] == INIT {
                let _gone = socket.send_to(&[VERSIONS, init[3], 1, 9], agent).await;
            }
        }
    });
    Ok(Peer { line, task })
}

/// A gateway whose transport fits, and which knows only the first version of the session's messages.
fn gateway_of_older_messages() -> Result<Peer> {
    let [gateway, device] = keys();
    let mut listener = listen(ListenConfig {
        listen: "127.0.0.1:0".parse()?,
        also: Vec::new(),
        secret: gateway,
        epoch: EpochKeys {
            epoch: 1,
            key: [5; 32],
        },
        reset_secret: [6; 32],
        transport: TransportConfig::gateway(),
        max_sessions: 10,
        devices: [(device.public(), DeviceStatus::Admitted)].into(),
    })?;
    let line = line_to(listener.local_addr())?;
    let older = VersionRange { oldest: 1, newest: 1 };
    let mut welcome = Vec::new();
    encode(
        &Message::Welcome(Welcome {
            mirror: MirrorState::Unknown,
            version: older.common(VersionRange::OURS),
            versions: older,
            software: "longhaul-gateway/0.1.0".to_owned(),
        }),
        &mut welcome,
    )?;
    let task = tokio::spawn(async move {
        while let Some(incoming) = listener.accept().await {
            let options = OpenOptions {
                class: Priority::CONTROL,
                early: EarlyData::Allowed,
                total: None,
            };
            let session = incoming.session;
            let welcome = welcome.clone();
            tokio::spawn(async move {
                let _stream = session.open(options, welcome.into(), End::Open).await;
                session.closed().await;
            });
        }
    });
    Ok(Peer { line, task })
}

#[tokio::test]
async fn versions_of_the_transport_that_do_not_fit_are_found_with_and_without_an_agent() -> Result<()> {
    let peer = gateway_of_another_transport().await?;
    let device = Device::enrolled(&peer.line).await?;
    assert_eq!(
        device.doctor(&[]).await?,
        ["agent_not_running", "version_mismatch"]
    );
    let _agent = device.start_agent(&["--fallback-after", "never"]).await?;
    device.trouble("version_mismatch").await?;
    let report = device.report(&[]).await?;
    let finding = &report["findings"][0];
    assert_eq!(finding["kind"], "version_mismatch", "{report:#}");
    let what = finding["what"].as_str().context("text")?;
    assert!(what.contains("update the older one"), "{what}");
    Ok(())
}

#[tokio::test]
async fn versions_of_the_messages_that_do_not_fit_are_found() -> Result<()> {
    let peer = gateway_of_older_messages()?;
    let device = Device::enrolled(&peer.line).await?;
    let _agent = device.start_agent(&["--fallback-after", "never"]).await?;
    device.trouble("version_mismatch").await?;
    let findings = device.doctor(&[]).await?;
    assert_eq!(findings, ["version_mismatch", "no_browser"]);
    Ok(())
}

#[tokio::test]
async fn a_gateway_without_room_for_another_session_is_named() -> Result<()> {
    let folder = folder()?;
    let (gateway, line) = gateway(folder.path(), "[limits]\nsessions = 1\n").await?;
    let address = gateway.address().to_string();
    let guest = Device::enrolled(&invite(folder.path(), "guest", &address).await?).await?;
    let _guest = guest.start_agent(&["--fallback-after", "never"]).await?;
    status_until(guest.control()?, |status| status["state"] == "open").await?;

    let device = Device::enrolled(&line).await?;
    assert_eq!(device.doctor(&[]).await?, ["agent_not_running", "gateway_full"]);
    let _agent = device.start_agent(&["--fallback-after", "never"]).await?;
    device.trouble("gateway_full").await?;
    let report = device.report(&[]).await?;
    let finding = &report["findings"][0];
    assert_eq!(finding["kind"], "gateway_full", "{report:#}");
    assert_eq!(finding["place"], "gateway", "{report:#}");
    // The operator does as the finding says; the agent tries again by itself.
    std::fs::write(folder.path().join("gateway.toml"), "[limits]\nsessions = 2\n")?;
    gateway.signal("HUP").await?;
    status_until(device.control()?, |status| status["state"] == "open").await?;
    Ok(())
}

#[tokio::test]
async fn the_doctor_leaves_no_session_at_the_gateway() -> Result<()> {
    let folder = folder()?;
    let (gateway, line) = gateway(folder.path(), "[limits]\nsessions = 1\n").await?;
    let device = Device::enrolled(&line).await?;
    for _ in 0..2 {
        assert_eq!(device.doctor(&[]).await?, ["agent_not_running"]);
    }
    // The only place is free again, long before a half-open session would be forgotten.
    let address = gateway.address().to_string();
    let guest = Device::enrolled(&invite(folder.path(), "guest", &address).await?).await?;
    let _guest = guest.start_agent(&["--fallback-after", "never"]).await?;
    status_until(guest.control()?, |status| status["state"] == "open").await?;
    assert!(!gateway.log().text().contains("limits.sessions"));
    Ok(())
}

#[tokio::test]
async fn a_second_machine_with_the_same_invite_is_named_and_never_disturbed_by_the_doctor() -> Result<()> {
    let origin = Origin::start(
        None,
        |_| {},
        |_: Request<Incoming>| async { ok("text/plain", "hello") },
    )
    .await?;
    let folder = folder()?;
    let resolve = format!("[fetch.resolve]\n\"site.test\" = \"{}\"\n", origin.address());
    let (_gateway, line) = gateway(folder.path(), &resolve).await?;
    let first = Device::enrolled(&line).await?;
    let agent = first.start_agent(&["--fallback-after", "never"]).await?;
    status_until(first.control()?, |status| status["state"] == "open").await?;
    let second = Device::enrolled(&line).await?;
    let other = second.start_agent(&["--fallback-after", "never"]).await?;
    first.trouble("taken_over").await?;
    let before = status_until(second.control()?, |status| status["notice"].is_string()).await?;
    assert_eq!(first.doctor(&[]).await?, ["taken_over", "no_browser"]);

    // Without an agent here, the doctor asks the gateway itself, with the key of the other machine's session.
    agent.end("TERM", COMMAND_LIMIT).await?;
    assert_eq!(first.doctor(&[]).await?, ["agent_not_running"]);
    let third = Device::enrolled(&line).await?;
    assert_eq!(third.doctor(&[]).await?, ["agent_not_running"]);
    // A request shows that the session of the other machine still works.
    let page = ask(other.address(), get("http://site.test/", &[])).await?;
    assert_eq!(page.text(), "hello");
    let after = status_until(second.control()?, |status| status["state"] == "open").await?;
    for key in ["sessions", "notice"] {
        assert_eq!(after[key], before[key], "{key}: {after:#}");
    }
    Ok(())
}

#[tokio::test]
async fn the_doctor_uses_the_key_that_replaced_a_one_time_invite() -> Result<()> {
    let folder = folder()?;
    let (gateway, _) = gateway(folder.path(), "").await?;
    let (state, address) = (
        folder.path().join("gateway").display().to_string(),
        gateway.address().to_string(),
    );
    let words = [
        "invite",
        "phone",
        "--once",
        "--address",
        &address,
        "--state-dir",
        &state,
    ];
    let made = run("longhaul-gateway", &words, COMMAND_LIMIT).await?;
    let device = Device::enrolled(made.stdout.trim()).await?;
    // The check does not use the invite up.
    assert_eq!(device.doctor(&[]).await?, ["agent_not_running"]);
    let agent = device.start_agent(&["--fallback-after", "never"]).await?;
    let key = device.state().join("device-key");
    status_until(device.control()?, |status| {
        status["state"] == "open" && key.exists()
    })
    .await?;
    gateway.log().contains("session open", LIMIT).await?;
    assert_eq!(device.doctor(&[]).await?, ["no_browser"]);
    agent.end("TERM", COMMAND_LIMIT).await?;
    assert_eq!(device.doctor(&[]).await?, ["agent_not_running"]);
    Ok(())
}
