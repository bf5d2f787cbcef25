//! Interfaces for operators and scripts: commands, flags, settings, formats, exit codes.
use std::{net::SocketAddr, process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use longhaul_tests::{
    client::{ask, request},
    process::{Running, command, run, run_with},
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};

use crate::{
    content::ok,
    pair::{COMMAND_LIMIT, LIMIT, Pair, Setup, folder, invite, start_agent, start_gateway, status},
};

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
        (GATEWAY, &["device"], &["list", "add", "revoke"]),
        (GATEWAY, &["device", "add"], &["--name"]),
        (GATEWAY, &["device", "revoke"], &["name, id or public key"]),
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

/// Keys of the output of `demo --once --json`, in their order.
const REPORT: [&str; 11] = [
    "url",
    "objects",
    "failed",
    "bytes_down",
    "bytes_up",
    "origin_bytes",
    "time_s",
    "ideal_gprs_s",
    "ideal_umts_s",
    "savings",
    "errors",
];

/// Parses one line of JSON with exactly the specified keys and types.
pub(crate) fn report(stdout: &str) -> Value {
    assert!(
        stdout.ends_with('\n') && stdout.lines().count() == 1,
        "not exactly one line: {stdout}"
    );
    let report: Value = serde_json::from_str(stdout).expect("one line of JSON");
    let keys: Vec<&String> = report.as_object().expect("an object").keys().collect();
    let mut expected = REPORT.to_vec();
    expected.sort_unstable();
    assert_eq!(keys, expected, "the keys and their order");
    assert!(report["url"].is_string(), "{report}");
    for key in ["objects", "failed", "bytes_down", "bytes_up", "origin_bytes"] {
        assert!(report[key].is_u64(), "{key} in {report}");
    }
    for key in ["time_s", "ideal_gprs_s", "ideal_umts_s"] {
        assert!(report[key].is_number(), "{key} in {report}");
    }
    assert_savings(&report["savings"]);
    for error in report["errors"].as_array().expect("a list of errors") {
        assert!(error["url"].is_string() && error["reason"].is_string(), "{error}");
    }
    report
}

/// Asserts that savings are complete and that their causes add up.
pub(crate) fn assert_savings(savings: &Value) {
    let number = |value: &Value| value.as_i64().expect("an integer");
    let causes = ["coding", "base", "pictures", "cache", "unchanged", "headers"];
    let sum: i64 = causes
        .iter()
        .map(|cause| number(&savings["by_cause"][cause]))
        .sum();
    assert_eq!(sum, number(&savings["bytes"]), "{savings}");
}

#[tokio::test]
async fn a_failed_demo_page_is_reported_as_json_with_exit_code_1() -> Result<()> {
    let demo = run(
        LONGHAUL,
        &["demo", "--once", "http://missing.invalid/", "--json"],
        LIMIT,
    )
    .await?;
    assert_eq!(demo.code, Some(1), "{}\n{}", demo.stdout, demo.stderr);
    let report = report(&demo.stdout);
    println!("{report}");
    assert_eq!(
        (report["failed"].as_u64(), report["url"].as_str()),
        (Some(1), Some("http://missing.invalid/"))
    );
    let error = &report["errors"][0];
    assert_eq!(error["url"], "http://missing.invalid/");
    assert!(
        error["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("name") || reason.contains("looked up")),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn the_demo_prints_its_addresses_and_removes_its_files() -> Result<()> {
    let temporary = folder()?;
    let mut demo = command(LONGHAUL)?
        .arg("demo")
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    let mut lines = BufReader::new(demo.stdout.take().context("stdout is piped")?).lines();
    let (mut proxy, mut page) = (None, None);
    let read = async {
        while let Some(line) = lines.next_line().await? {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some("proxy"), Some(address), None) => proxy = Some(address.parse::<SocketAddr>()?),
                (Some("status"), Some("page"), Some(url)) => page = Some(url.to_owned()),
                _ => {}
            }
            if line.contains("Ctrl-C") {
                break;
            }
        }
        anyhow::Ok(())
    };
    timeout(LIMIT, read).await??;
    let proxy = proxy.context("the proxy's address")?;
    let page = page.context("the status page's URL")?;
    let control: SocketAddr = page.trim_start_matches("http://").trim_end_matches('/').parse()?;
    assert!(status(control).await?["state"].is_string());
    let help = ask(proxy, format!("GET / HTTP/1.1\r\nHost: {proxy}\r\n\r\n")).await?;
    assert!(help.text().contains("proxy.pac"), "{}", help.text());

    let sent = Command::new("kill")
        .arg("-INT")
        .arg(demo.id().context("running")?.to_string())
        .status()
        .await?;
    ensure!(sent.success());
    let ended = timeout(LIMIT, demo.wait()).await??;
    assert_eq!(ended.code(), Some(0), "after Ctrl-C: {ended}");
    assert!(
        std::fs::read_dir(temporary.path())?.next().is_none(),
        "the demo removes its files"
    );
    assert!(
        tokio::net::TcpStream::connect(proxy).await.is_err(),
        "the agent of the demo ends with it"
    );
    Ok(())
}

#[tokio::test]
async fn the_control_port_serves_status_and_script_only_under_its_own_host_name() -> Result<()> {
    let pair = Pair::start(Setup::default()).await?;
    let control = pair.control()?;
    // The round-trip time is measured after the session is open.
    let is_measured = |status: &Value| status["session"]["rtt_ms"].is_number();
    let status = pair
        .status_until(|status| status["state"] == "open" && is_measured(status))
        .await?;
    for key in [
        "bytes_down",
        "bytes_up",
        "requests",
        "failures",
        "sessions",
        "uptime_s",
    ] {
        assert!(status[key].is_u64(), "{key} in {status:#}");
    }
    assert_eq!(status["proxy"], pair.proxy().to_string());

    let own = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {control}\r\nConnection: close\r\n\r\n");
    let page = ask(control, own("/")).await?;
    assert_eq!(page.status, 200);
    assert!(
        page.field("content-type")
            .is_some_and(|kind| kind.starts_with("text/html")),
        "{page:?}"
    );
    for port in [control, pair.proxy()] {
        let request = format!(
            "GET /proxy.pac HTTP/1.1\r\nHost: {port}\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        );
        let script = ask(port, request).await?;
        assert_eq!(script.status, 200);
        assert_eq!(
            script.field("content-type"),
            Some("application/x-ns-proxy-autoconfig")
        );
        assert_eq!(script.field("content-encoding"), None);
        assert!(
            script.text().contains("function FindProxyForURL"),
            "{}",
            script.text()
        );
        assert!(
            script.text().contains(&format!("PROXY {}", pair.proxy())),
            "{}",
            script.text()
        );
        assert!(script.text().contains("DIRECT"), "{}", script.text());
    }
    // DNS rebinding: a web page whose name resolves to the agent sends its own name as `Host`.
    for host in ["evil.test", "127.0.0.1", ""] {
        let request = format!("GET /status.json HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(ask(control, request).await?.status, 403, "{host}");
    }
    let through = ask(
        pair.proxy(),
        request("GET", &format!("http://{control}/status.json"), &[]),
    )
    .await?;
    assert_eq!(
        through.status,
        403,
        "a proxy request for the control port must be refused: {}",
        through.text()
    );
    Ok(())
}

#[tokio::test]
async fn later_layers_of_settings_override_earlier_ones() -> Result<()> {
    let folder = folder()?;
    let state = folder.path().join("state").display().to_string();
    let gateway = folder.path().join("g.toml");
    std::fs::write(
        &gateway,
        "listen = '127.0.0.1:1001'\nlog = 'warn'\n[fetch]\nresolve = {'*.test' = '10.79.0.1'}\nresponse-timeout = '5s'\n\
         [guard]\nallow = ['10.0.0.0/8']\n[limits]\nsessions = 7\n",
    )?;
    let config = gateway.display().to_string();
    let arguments = [
        "check-config",
        "--config",
        &config,
        "--state-dir",
        &state,
        "--listen",
        "127.0.0.1:1003",
    ];
    let variables = [("LONGHAUL_LISTEN", "127.0.0.1:1002"), ("LONGHAUL_LOG", "error")];
    let checked = run_with(GATEWAY, &arguments, &variables, COMMAND_LIMIT).await?;
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    for line in [
        "listen = \"127.0.0.1:1003\" # flag --listen",
        "log = \"error\" # environment variable LONGHAUL_LOG",
        "resolve = { \"*.test\" = \"10.79.0.1\" } # ",
        "response-timeout = \"5s\" # ",
        "allow = [\"10.0.0.0/8\"] # ",
        "sessions = 7 # ",
        "dns = [\"system\"] # default",
    ] {
        assert!(
            checked.stdout.contains(line),
            "no `{line}` in\n{}",
            checked.stdout
        );
    }
    // The printed settings are a configuration with the same meaning.
    let printed = folder.path().join("printed.toml");
    std::fs::write(&printed, &checked.stdout)?;
    let printed = printed.display().to_string();
    let again = run(GATEWAY, &["check-config", "--config", &printed], COMMAND_LIMIT).await?;
    let values = |text: &str| {
        text.lines()
            .map(|line| line.split(" # ").next().unwrap_or("").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(values(&again.stdout), values(&checked.stdout), "{}", again.stderr);

    let made = run(
        GATEWAY,
        &[
            "invite",
            "--state-dir",
            &state,
            "--name",
            "a",
            "--address",
            "gw.test:4433",
        ],
        COMMAND_LIMIT,
    )
    .await?;
    let line = made.stdout.trim();
    let agent = folder.path().join("a.toml");
    std::fs::write(
        &agent,
        "listen = '127.0.0.1:1001'\ncontrol = '127.0.0.1:1011'\nlink = 'lte'\n[fallback]\nafter = '1min'\n",
    )?;
    let config = agent.display().to_string();
    let arguments = [
        "check-config",
        "--config",
        &config,
        "--state-dir",
        &state,
        "--listen",
        "127.0.0.1:1003",
    ];
    let variables = [
        ("LONGHAUL_LISTEN", "127.0.0.1:1002"),
        ("LONGHAUL_CONTROL", "127.0.0.1:1012"),
        ("LONGHAUL_INVITE", line),
    ];
    let checked = run_with(AGENT, &arguments, &variables, COMMAND_LIMIT).await?;
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    for value in ["127.0.0.1:1003", "127.0.0.1:1012", "gw.test:4433", "after 60 s"] {
        assert!(
            checked.stdout.contains(value),
            "no `{value}` in\n{}",
            checked.stdout
        );
    }
    assert!(!checked.stdout.contains(line), "the invite must not be printed");
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
        list.stdout.contains("laptop") && list.stdout.contains("admitted"),
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
