//! Troubles of the hop, as the running agent reports them and as the doctor finds them without an agent.
use std::time::Instant;

use longhaul_types::{Invite, SecretKey};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, UdpSocket},
};

use super::*;
use crate::pair::{LIMIT, free_udp_port};

/// Silence is reported after 3 s; the rest is for a busy machine.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

fn invite_to(address: &str) -> Result<String> {
    let gateway = SecretKey::from_bytes([8; 32]).public();
    let device = SecretKey::from_bytes([7; 32]);
    Ok(Invite::new(address.to_owned(), gateway, device, [0; 32])?.to_line())
}

#[tokio::test]
async fn a_closed_port_is_told_from_silence_at_once() -> Result<()> {
    let device = Device::enrolled(&invite_to(&free_udp_port().await?.to_string())?).await?;
    assert_eq!(device.doctor(&[]).await?, ["agent_not_running", "port_closed"]);

    let agent = device.start_agent(&["--fallback-after", "never"]).await?;
    let status = device.trouble("port_closed").await?;
    assert!(status["trouble"]["since_s"].is_number(), "{status:#}");
    agent.log().contains("port is closed", LIMIT).await?;
    assert_eq!(device.doctor(&[]).await?, ["port_closed", "no_browser"]);
    let (code, status) = device.status().await?;
    assert_eq!(
        (code, &status["working"]),
        (Some(1), &Value::from(false)),
        "{status:#}"
    );
    Ok(())
}

#[tokio::test]
async fn silence_is_told_within_seconds_and_shows_no_figure_that_nobody_measured() -> Result<()> {
    let silent = UdpSocket::bind(("127.0.0.1", 0)).await?;
    let device = Device::enrolled(&invite_to(&silent.local_addr()?.to_string())?).await?;
    let started = Instant::now();
    let agent = device.start_agent(&["--fallback-after", "never"]).await?;
    let status = device.trouble("silent").await?;
    assert!(started.elapsed() < SILENCE_LIMIT, "{:?}", started.elapsed());
    agent.log().contains("no answer", LIMIT).await?;
    let session = &status["session"];
    for figure in ["rtt_ms", "min_rtt_ms", "rate_bps"] {
        assert_eq!(session[figure], Value::Null, "{figure}: {status:#}");
    }
    // At least three INITs of more than 150 bytes.
    assert!(status["bytes_up"].as_u64() > Some(450), "{status:#}");
    assert_eq!(status["bytes_down"], 0, "{status:#}");
    let state = device.state().display().to_string();
    let text = run(LONGHAUL, &["status", "--state-dir", &state], COMMAND_LIMIT).await?;
    assert!(
        text.stdout.contains("RTT not measured, rate not measured"),
        "{text:?}"
    );
    assert_eq!(text.code, Some(1), "{text:?}");
    assert_eq!(device.doctor(&[]).await?, ["silent", "no_browser"]);

    agent.end("TERM", COMMAND_LIMIT).await?;
    // The longest case: a whole check of the gateway, and the look for a portal.
    let started = Instant::now();
    assert_eq!(device.doctor(&[]).await?, ["agent_not_running", "silent"]);
    assert!(started.elapsed() < DOCTOR_LIMIT, "{:?}", started.elapsed());
    Ok(())
}

#[tokio::test]
async fn the_key_of_another_gateway_looks_like_silence() -> Result<()> {
    let folder = folder()?;
    let (gateway, _) = gateway(folder.path(), "").await?;
    let device = Device::enrolled(&invite_to(&gateway.address().to_string())?).await?;
    let report = device.report(&[]).await?;
    let finding = &report["findings"][1];
    assert_eq!(finding["kind"], "silent", "{report:#}");
    let what = finding["what"].as_str().context("text")?;
    assert!(what.contains("key is not this gateway's"), "{what}");
    Ok(())
}

#[tokio::test]
async fn a_revoked_device_and_an_unknown_one_are_told_apart() -> Result<()> {
    let folder = folder()?;
    let (gateway, line) = gateway(folder.path(), "").await?;
    let device = Device::enrolled(&line).await?;
    let agent = device.start_agent(&["--fallback-after", "never"]).await?;
    status_until(device.control()?, |status| status["state"] == "open").await?;
    let state = folder.path().join("gateway").display().to_string();
    let arguments = ["device", "revoke", "laptop", "--state-dir", &state];
    let revoked = run("longhaul-gateway", &arguments, COMMAND_LIMIT).await?;
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    device.trouble("revoked").await?;
    let page = ask(agent.address(), get("http://site.test/", &[])).await?;
    assert_eq!(page.status, 502);
    let text = page.text();
    assert!(text.contains("revoked") && !text.contains("no website"), "{text}");
    assert_eq!(device.doctor(&[]).await?, ["revoked"]);
    agent.end("TERM", COMMAND_LIMIT).await?;
    assert_eq!(device.doctor(&[]).await?, ["agent_not_running", "revoked"]);

    let known: Invite = line.parse()?;
    let stranger = SecretKey::from_bytes([9; 32]);
    let address = gateway.address().to_string();
    let unknown = Invite::new(address, known.gateway(), stranger, [0; 32])?.to_line();
    let device = Device::enrolled(&unknown).await?;
    assert_eq!(device.doctor(&[]).await?, ["agent_not_running", "not_enrolled"]);
    Ok(())
}

#[tokio::test]
async fn a_wrong_clock_is_found_although_the_session_works() -> Result<()> {
    let libraries = [
        "x86_64-linux-gnu/faketime",
        "aarch64-linux-gnu/faketime",
        "faketime",
    ];
    let library = libraries
        .map(|folder| PathBuf::from(format!("/usr/lib/{folder}/libfaketime.so.1")))
        .into_iter()
        .find(|path| path.exists())
        .context("libfaketime: run scripts/install-tools.sh test")?;
    let folder = folder()?;
    let (_gateway, line) = gateway(folder.path(), "").await?;
    for (offset, words) in [("-10d", "behind"), ("+5h", "ahead of")] {
        let device = Device::enrolled(&line).await?;
        let variables = [
            ("LD_PRELOAD", library.as_os_str()),
            ("FAKETIME", offset.as_ref()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".as_ref()),
        ];
        let _agent = Running::start_with(AGENT, &device.agent_arguments(&[]), &variables).await?;
        let status = device.trouble("clock_off").await?;
        assert_eq!(status["state"], "open", "{status:#}");
        let detail = status["trouble"]["detail"].as_str().context("detail")?;
        assert!(detail.contains(words), "{detail}");
        let findings = device.doctor(&[]).await?;
        assert_eq!(findings, ["clock_off", "no_browser"], "{offset}");
    }
    Ok(())
}

/// Runs the doctor where the system knows only the names of its files.
#[tokio::test]
async fn a_name_that_does_not_exist_is_told_from_a_computer_without_a_network() -> Result<()> {
    if !is_root("a mount or network namespace")? {
        return Ok(());
    }
    let device = Device::enrolled(&invite_to("gateway.longhaul.invalid:4433")?).await?;
    let switch = device.home().join("nsswitch.conf");
    std::fs::write(&switch, "hosts: files\n")?;
    let longhaul = longhaul_tests::process::program(LONGHAUL)?;
    let doctor = format!(
        "{} doctor --json --home {}",
        longhaul.display(),
        device.home().display()
    );
    // A default route, on which nothing answers.
    let in_network = "ip link set lo up && ip route add default dev lo";
    let files_only = format!("mount --bind {} /etc/nsswitch.conf", switch.display());
    for (setup, kind) in [
        (format!("{in_network} && {files_only}"), "name_not_found"),
        (files_only.clone(), "offline"),
    ] {
        let output = Command::new("unshare")
            .args([
                "--mount",
                "--net",
                "sh",
                "-c",
                &format!("{setup} && exec {doctor}"),
            ])
            .env("LONGHAUL_CONFIG", "/dev/null")
            .output()
            .await?;
        let finished = Finished {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
        };
        let report = report_of(&finished)?;
        assert_eq!(report["findings"][1]["kind"], kind, "{report:#}");
    }
    Ok(())
}

/// Offline, neither the website nor the gateway is at fault, and the page says so.
#[tokio::test]
async fn the_error_page_of_an_offline_computer_names_the_computer() -> Result<()> {
    if !is_root("a network namespace")? {
        return Ok(());
    }
    let device = Device::enrolled(&invite_to("192.0.2.1:4433")?).await?;
    let agent = longhaul_tests::process::program(AGENT)?;
    let arguments = device.agent_arguments(&["--fallback-after", "1s"]).join(" ");
    let script = format!("ip link set lo up && exec {} {arguments}", agent.display());
    let mut inside = Command::new("unshare")
        .args(["--net", "sh", "-c", &script])
        .env("LONGHAUL_CONFIG", "/dev/null")
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(inside.stdout.take().context("stdout")?).lines();
    let ready = lines.next_line().await?.context("a line")?;
    let proxy = ready.strip_prefix("ready ").context("ready")?.to_owned();
    let pid = inside.id().context("a process")?;
    let curl = format!(
        "nsenter --target {pid} --net curl --silent --include --proxy http://{proxy} http://site.test/"
    );
    let page = shell(&curl).await?;
    assert!(page.starts_with("HTTP/1.1 504 "), "{page}");
    assert!(page.contains("This computer is offline"), "{page}");
    assert!(
        !page.contains("no website of this name") && !page.contains("Longhaul is working"),
        "{page}"
    );
    inside.kill().await?;
    Ok(())
}

#[tokio::test]
async fn a_login_page_of_the_network_is_found_while_the_gateway_is_silent() -> Result<()> {
    let silent = UdpSocket::bind(("127.0.0.1", 0)).await?;
    let device = Device::enrolled(&invite_to(&silent.local_addr()?.to_string())?).await?;
    let _agent = device.start_agent(&[]).await?;
    device.trouble("silent").await?;
    let portal = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/generate_204", portal.local_addr()?);
    let answer = async {
        let (mut connection, _) = portal.accept().await?;
        let mut request = vec![0; 4096];
        let read = connection.read(&mut request).await?;
        let login = b"HTTP/1.1 302 Found\r\nLocation: http://login.hotel.test/\r\nContent-Length: 0\r\n\r\n";
        connection.write_all(login).await?;
        anyhow::Ok(String::from_utf8_lossy(&request[..read]).into_owned())
    };
    let asked = ["--portal-url", &url];
    let (report, request) = tokio::try_join!(device.report(&asked), answer)?;
    assert!(request.starts_with("GET /generate_204 HTTP/1.1\r\n"), "{request}");
    let finding = &report["findings"][0];
    assert_eq!(finding["kind"], "captive_portal", "{report:#}");
    assert_eq!(finding["mend"], "xdg-open 'http://login.hotel.test/'");
    Ok(())
}
