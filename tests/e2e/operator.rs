//! The operator's commands and their effect on agents: sessions begin and end at once, invites expire, one-time
//! invites admit one agent.
use std::{os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use longhaul_tests::process::{Running, command, run};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{interval, timeout};

use crate::pair::{COMMAND_LIMIT, LIMIT, control, folder, start_agent, start_gateway, status_until};

const GATEWAY: &str = "longhaul-gateway";
/// A user without an entry in the machine's list of users.
const SERVICE: u32 = 54_321;

/// Runs a command of the operator beside the gateway whose state is in a test folder.
pub(crate) async fn operate(folder: &Path, words: &[&str]) -> Result<String> {
    let state = folder.join("gateway").display().to_string();
    let words: Vec<&str> = words.iter().copied().chain(["--state-dir", &state]).collect();
    let done = run(GATEWAY, &words, COMMAND_LIMIT).await?;
    ensure!(done.code == Some(0), "{words:?}: {}", done.stderr);
    Ok(done.stdout.trim_end().to_owned())
}

pub(crate) async fn devices(folder: &Path) -> Result<Vec<Value>> {
    let list: Value = serde_json::from_str(&operate(folder, &["device", "list", "--json"]).await?)?;
    Ok(list["devices"].as_array().context("a list of devices")?.clone())
}

/// Waits until the list of devices meets a condition.
pub(crate) async fn devices_until(folder: &Path, reached: impl Fn(&[Value]) -> bool) -> Result<Vec<Value>> {
    let mut looks = interval(Duration::from_millis(200));
    let wait = async {
        loop {
            looks.tick().await;
            let devices = devices(folder).await?;
            if reached(&devices) {
                return Ok(devices);
            }
        }
    };
    timeout(LIMIT, wait)
        .await
        .context("the list of devices does not change")?
}

async fn until_state(folder: &Path, state: &str) -> Result<Value> {
    status_until(control(folder)?, |status| status["state"] == state).await
}

/// A folder of an agent in the folder of a test.
fn agent_folder(folder: &Path, name: &str) -> Result<std::path::PathBuf> {
    let folder = folder.join(name);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A running gateway, in a folder of its own.
struct Operated {
    folder: TempDir,
    gateway: Running,
    address: String,
}

impl Operated {
    async fn start() -> Result<Self> {
        let folder = folder()?;
        std::fs::write(folder.path().join("gateway.toml"), "")?;
        let gateway = start_gateway(folder.path(), "127.0.0.1:0").await?;
        let address = gateway.address().to_string();
        Ok(Self {
            folder,
            gateway,
            address,
        })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes an invite for a device; returns its line.
    async fn invite(&self, words: &[&str]) -> Result<String> {
        let words = [&["invite"], words, &["--address", &self.address]].concat();
        operate(self.path(), &words).await
    }
}

/// Waits until an agent has no session and says why, with these words.
async fn assert_down(folder: &Path, words: &[&str]) -> Result<()> {
    let down = until_state(folder, "down").await?;
    let reason = down["reason"].as_str().unwrap_or_default();
    for word in words {
        assert!(reason.contains(word), "no `{word}` in `{reason}`");
    }
    Ok(())
}

async fn agent(folder: &Path, line: &str) -> Result<Running> {
    start_agent(folder, line, &["--fallback-after".to_owned(), "never".to_owned()]).await
}

#[tokio::test]
async fn root_invites_and_removes_a_device_of_a_running_gateway_of_another_user() -> Result<()> {
    let folder = folder()?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
    let state = folder.path().join("gateway");
    std::fs::create_dir(&state)?;
    let started = command(GATEWAY)?
        .arg("--version")
        .uid(SERVICE)
        .gid(SERVICE)
        .output()
        .await;
    if !started.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: needs root, and a build that other users can execute");
        return Ok(());
    }
    std::os::unix::fs::chown(&state, Some(SERVICE), Some(SERVICE))?;
    let arguments = [
        "run",
        "--listen",
        "127.0.0.1:0",
        "--state-dir",
        &state.display().to_string(),
    ];
    let gateway = Running::start_as(SERVICE, GATEWAY, &arguments).await?;
    let address = gateway.address().to_string();

    let line = operate(folder.path(), &["invite", "laptop", "--address", &address]).await?;
    let _agent = agent(folder.path(), &line).await?;
    until_state(folder.path(), "open").await?;
    let known = devices_until(folder.path(), |devices| devices[0]["software"].is_string()).await?;
    let device = &known[0];
    println!("{device:#}");
    assert_eq!(
        (&device["name"], &device["status"]),
        (&"laptop".into(), &"admitted".into())
    );
    assert!(
        device["invite_expires"].is_null(),
        "a used invite does not expire"
    );
    for field in ["session_since", "last_seen"] {
        assert!(device[field].is_string(), "{field}");
    }
    assert!(device["bytes_down"].as_u64().is_some_and(|bytes| bytes > 100));
    // The bytes of the handshake do not count, and the agent may have sent nothing else.
    assert!(device["bytes_up"].is_u64(), "{device:#}");

    operate(folder.path(), &["device", "rename", "laptop", "old laptop"]).await?;
    until_state(folder.path(), "open").await?;
    operate(folder.path(), &["device", "remove", "old laptop"]).await?;
    assert_down(folder.path(), &["revoked"]).await?;
    gateway.log().contains("the device was removed", LIMIT).await?;
    let known = devices(folder.path()).await?;
    assert_eq!(known[0]["status"], "revoked");
    assert!(known[0]["session_since"].is_null() && known[0]["last_seen"].is_string());
    Ok(())
}

#[tokio::test]
async fn an_invite_that_is_not_used_in_time_is_refused() -> Result<()> {
    let operated = Operated::start().await?;
    let log = operated.gateway.log();
    let line = operated.invite(&["late", "--expires", "1s"]).await?;
    log.contains("was not used in time and has expired", LIMIT)
        .await?;
    let _agent = agent(operated.path(), &line).await?;
    assert_down(operated.path(), &["expired", "new invite"]).await?;
    log.contains("refused: the invite was not used in time", LIMIT)
        .await?;
    let expired = devices(operated.path()).await?;
    assert_eq!(expired[0]["status"], "expired");
    let again = operated.invite(&["late", "--replace"]).await?;
    let other = agent_folder(operated.path(), "again")?;
    let _other = agent(&other, &again).await?;
    until_state(&other, "open").await?;
    Ok(())
}

#[tokio::test]
async fn a_one_time_invite_admits_the_first_agent_only() -> Result<()> {
    let operated = Operated::start().await?;
    let folder = operated.path();
    let line = operated.invite(&["phone", "--once"]).await?;
    let first = agent(folder, &line).await?;
    let exchanged = |devices: &[Value]| {
        devices
            .iter()
            .any(|device| device["session_since"].is_string() && device["status"] == "admitted")
    };
    let known = devices_until(folder, exchanged).await?;
    let states: Vec<_> = known
        .iter()
        .map(|device| (device["name"].as_str(), device["status"].as_str()))
        .collect();
    assert_eq!(
        states,
        [
            (Some("phone"), Some("revoked")),
            (Some("phone"), Some("admitted"))
        ]
    );
    until_state(folder, "open").await?;
    let key = folder.join("agent/device-key");
    assert_eq!(std::fs::metadata(&key)?.permissions().mode() & 0o777, 0o600);

    let thief = agent_folder(folder, "thief")?;
    let _thief = agent(&thief, &line).await?;
    assert_down(&thief, &["revoked"]).await?;

    // The agent finds its own key after a restart, and the gateway has it on disk.
    first.kill().await?;
    let Operated {
        folder,
        gateway,
        address,
    } = operated;
    gateway.kill().await?;
    let _gateway = start_gateway(folder.path(), &address).await?;
    let _first = agent(folder.path(), &line).await?;
    until_state(folder.path(), "open").await?;
    Ok(())
}
