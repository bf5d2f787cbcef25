//! Interfaces for operators and scripts: commands, flags, settings, formats, exit codes.
mod control_port;
mod demo;
mod settings;

use std::time::Duration;

use anyhow::{Context as _, Result};
use longhaul_tests::{
    client::ask,
    process::{Running, run},
};
use serde_json::Value;

use crate::{
    content::ok,
    pair::{COMMAND_LIMIT, LIMIT, control, folder, invite, start_agent, start_gateway, status_until},
};

pub(crate) use self::demo::{assert_savings, report};

const GATEWAY: &str = "longhaul-gateway";
const AGENT: &str = "longhaul-agent";
const LONGHAUL: &str = "longhaul";

#[tokio::test]
async fn every_command_has_help_that_names_its_flags() -> Result<()> {
    let commands: &[(&str, &[&str], &[&str])] = &[
        (
            GATEWAY,
            &[],
            &[
                "run",
                "check-config",
                "device",
                "invite",
                "--config",
                "--listen",
                "--state-dir",
                "--resolve",
            ],
        ),
        (
            GATEWAY,
            &["run"],
            &["--listen", "--state-dir", "--config", "--extra-ca", "--allow"],
        ),
        (GATEWAY, &["check-config"], &["--config"]),
        (GATEWAY, &["device"], &["list", "add", "remove"]),
        (GATEWAY, &["device", "add"], &["--name"]),
        (GATEWAY, &["device", "remove"], &["name, id or public key"]),
        (GATEWAY, &["invite"], &["--name", "--address"]),
        (AGENT, &[], &["run", "check-config", "check-gateway", "status"]),
        (
            AGENT,
            &["run"],
            &[
                "--listen",
                "127.0.0.1:3128",
                "--control",
                "--state-dir",
                "--invite",
                "--link",
                "--fallback-after",
            ],
        ),
        (AGENT, &["check-config"], &["--config"]),
        (AGENT, &["status"], &["--json", "--control"]),
        (LONGHAUL, &[], &["demo", "keygen", "enroll", "status", "doctor"]),
        (
            LONGHAUL,
            &["demo"],
            &[
                "--once",
                "--json",
                "--resolve",
                "NAME=ADDR",
                "--extra-ca",
                "--warc",
                "--link",
            ],
        ),
        (LONGHAUL, &["keygen"], &["--out"]),
        (LONGHAUL, &["enroll"], &["--replace", "--state-dir"]),
        (LONGHAUL, &["status"], &["--json"]),
        (LONGHAUL, &["doctor"], &["--json", "--portal-url"]),
    ];
    for (program, words, documented) in commands {
        let arguments: Vec<&str> = words.iter().copied().chain(["--help"]).collect();
        let help = run(program, &arguments, COMMAND_LIMIT).await?;
        assert_eq!(
            (help.code, help.stderr.as_str()),
            (Some(0), ""),
            "{program} {arguments:?}"
        );
        for flag in *documented {
            assert!(
                help.stdout.contains(flag),
                "{program} {words:?}: no `{flag}` in\n{}",
                help.stdout
            );
        }
    }
    for program in [GATEWAY, AGENT, LONGHAUL] {
        let version = run(program, &["--version"], COMMAND_LIMIT).await?;
        assert_eq!(version.code, Some(0));
        assert_eq!(
            version.stdout.trim(),
            format!(
                "{program} {}",
                longhaul_types::version_text(env!("CARGO_PKG_VERSION"), option_env!("LONGHAUL_COMMIT"))
            )
        );
        for wrong in [&["--no-such-flag"][..], &["no-such-command"]] {
            let usage = run(program, wrong, COMMAND_LIMIT).await?;
            assert_eq!(
                (usage.code, usage.stdout.as_str()),
                (Some(2), ""),
                "{program} {wrong:?}"
            );
            assert!(usage.stderr.contains("--help"), "{}", usage.stderr);
        }
    }
    Ok(())
}

#[tokio::test]
async fn both_programs_report_ready_once_and_exit_cleanly_on_signals() -> Result<()> {
    let folder = folder()?;
    std::fs::write(folder.path().join("gateway.toml"), "")?;
    for signal in ["TERM", "INT"] {
        let gateway = start_gateway(folder.path(), "127.0.0.1:0").await?;
        assert_ne!(
            gateway.address().port(),
            0,
            "the port is the one that the system chose"
        );
        let line = invite(folder.path(), signal, &gateway.address().to_string()).await?;
        let agent = start_agent(folder.path(), &line, &[]).await?;
        assert_ne!(
            agent.address().port(),
            0,
            "the port is the one that the system chose"
        );
        let about: Value =
            serde_json::from_str(&std::fs::read_to_string(folder.path().join("agent/agent.json"))?)?;
        assert_eq!(about["proxy"], agent.address().to_string());
        let ended = agent.end(signal, LIMIT).await?;
        assert_eq!(ended.code(), Some(0), "agent after SIG{signal}: {ended}");
        assert!(
            !folder.path().join("agent/agent.json").exists(),
            "the agent removes the file with its address"
        );
        let ended = gateway.end(signal, LIMIT).await?;
        assert_eq!(ended.code(), Some(0), "gateway after SIG{signal}: {ended}");
    }
    Ok(())
}

#[tokio::test]
async fn keygen_invite_enroll_and_status_commands_work_together() -> Result<()> {
    let origin =
        longhaul_tests::origin::Origin::start(None, |_| {}, |_| async { ok("text/plain", "hello") }).await?;
    let folder = folder()?;
    let resolve = format!("[fetch.resolve]\n\"site.test\" = \"{}\"\n", origin.address());
    std::fs::write(folder.path().join("gateway.toml"), resolve)?;
    let gateway = start_gateway(folder.path(), "127.0.0.1:0").await?;
    let line = invite(folder.path(), "laptop", &gateway.address().to_string()).await?;
    let state = folder.path().join("agent").display().to_string();

    let stopped = run(LONGHAUL, &["status", "--state-dir", &state], COMMAND_LIMIT).await?;
    println!("status without a running agent: {}", stopped.stderr);
    assert_eq!(stopped.code, Some(1), "{stopped:?}");

    let enrolled = run(LONGHAUL, &["enroll", &line, "--state-dir", &state], COMMAND_LIMIT).await?;
    println!("{}", enrolled.stdout);
    assert_eq!(enrolled.code, Some(0), "{}", enrolled.stderr);
    assert!(!enrolled.stdout.contains(&line), "the invite must not be printed");
    let arguments = [
        "run",
        "--listen",
        "127.0.0.1:0",
        "--control",
        "127.0.0.1:0",
        "--state-dir",
        &state,
    ];
    let agent = Running::start(AGENT, &arguments).await?;
    let page = ask(
        agent.address(),
        longhaul_tests::client::get("http://site.test/", &[]),
    )
    .await?;
    assert_eq!((page.status, page.text().as_str()), (200, "hello"));
    // The status may lag behind the response.
    status_until(control(folder.path())?, |status| status["state"] == "open").await?;

    let json = run(
        LONGHAUL,
        &["status", "--json", "--state-dir", &state],
        COMMAND_LIMIT,
    )
    .await?;
    assert_eq!(json.code, Some(0), "{}", json.stderr);
    let json: Value = serde_json::from_str(&json.stdout)?;
    assert_eq!(
        (&json["state"], json["requests"].as_u64()),
        (&Value::from("open"), Some(1)),
        "{json:#}"
    );
    let text = run(LONGHAUL, &["status", "--state-dir", &state], COMMAND_LIMIT).await?;
    println!("{}", text.stdout);
    assert!(text.stdout.contains("open"), "{}", text.stdout);

    let gateway_state = folder.path().join("gateway").display().to_string();
    let list = run(
        GATEWAY,
        &["device", "list", "--state-dir", &gateway_state],
        COMMAND_LIMIT,
    )
    .await?;
    assert!(
        list.stdout.contains("laptop") && list.stdout.contains("open"),
        "{}",
        list.stdout
    );
    let made = run(LONGHAUL, &["keygen"], COMMAND_LIMIT).await?;
    let key = made
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("public key: "))
        .context("no public key in the output")?;
    let arguments = [
        "device",
        "add",
        "--name",
        "phone",
        key.trim(),
        "--state-dir",
        &gateway_state,
    ];
    let added = run(GATEWAY, &arguments, COMMAND_LIMIT).await?;
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    let twice = run(GATEWAY, &arguments, COMMAND_LIMIT).await?;
    assert_eq!(twice.code, Some(1));
    assert!(twice.stderr.contains("phone"), "{}", twice.stderr);
    let _ended = agent.end("TERM", Duration::from_secs(10)).await?;
    Ok(())
}
