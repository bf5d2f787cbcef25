//! The page of an agent that has no invite.
use std::{net::SocketAddr, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use longhaul_chromium::{Browser, BrowserOptions, Names};
use longhaul_tests::{client::ask, process::command};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout},
    time::timeout,
};

use crate::pair::{LIMIT, Pair, Setup, control, folder, status_until};

/// Starts `longhaul-agent setup` and returns the address of its page and its token.
async fn start(state: &str) -> Result<(Child, Lines<BufReader<ChildStdout>>, SocketAddr, String)> {
    let ports = ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"];
    let mut child = command("longhaul-agent")?
        .arg("setup")
        .args(ports)
        .args(["--state-dir", state])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("stdout")?).lines();
    let line = timeout(LIMIT, lines.next_line()).await??.context("a line")?;
    let (_, rest) = line.split_once("http://").context("an address")?;
    let (address, rest) = rest.split_once("/?token=").context("a token")?;
    let token = rest.split(' ').next().unwrap_or_default().to_owned();
    Ok((child, lines, address.parse()?, token))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_takes_the_invite_of_an_agent_that_has_none() -> Result<()> {
    let pair = Pair::start(Setup::default()).await?;
    let home = folder()?;
    let state = home.path().join("agent").display().to_string();
    let (mut agent, mut lines, page, token) = start(&state).await?;
    let post = |invite: &str, fields: &str| {
        let body = format!("invite={invite}");
        format!(
            "POST /enrol HTTP/1.1\r\nHost: {page}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nConnection: close\r\n{fields}\r\n{body}",
            body.len()
        )
    };
    // Neither a page of another origin nor a program without the token enrols the device.
    let line = pair.second_invite();
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let own = format!("Origin: http://{page}\r\n");
    for fields in [
        own.clone(),
        format!("{bearer}Origin: http://evil.test\r\n"),
        bearer.clone(),
    ] {
        assert_eq!(ask(page, post(line, &fields)).await?.status, 403, "{fields}");
    }
    let wrong = ask(page, post("longhaul1:nonsense", &format!("{own}{bearer}"))).await?;
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("role=\"alert\""), "{}", wrong.text());
    assert!(!home.path().join("agent/invite").exists());
    // A browser with the printed address.
    let mut browser = Browser::start(&BrowserOptions::direct(Names::fixed([(
        "127.0.0.1",
        "127.0.0.1",
    )])))
    .await?;
    let send = format!(
        "(async () => {{
            const form = document.querySelector('form');
            form.elements.invite.value = '{line}';
            const answer = await fetch(form.action, {{ method: 'POST', body: new URLSearchParams(new FormData(form)) }});
            return answer.status + ' ' + document.querySelector('h1').textContent;
        }})()"
    );
    let said = browser
        .evaluate(&format!("http://{page}/?token={token}"), &send, LIMIT)
        .await?;
    assert_eq!(said, "200 This device is not enrolled");
    let ready = timeout(LIMIT, lines.next_line()).await??.unwrap_or_default();
    ensure!(ready.starts_with("ready 127.0.0.1:"), "{ready}");
    let is_open = |status: &Value| status["state"] == "open";
    status_until(control(home.path())?, is_open).await?;
    agent.kill().await?;
    // With the invite, the command runs the agent at once.
    let mut again = command("longhaul-agent")?
        .args([
            "setup",
            "--listen",
            "127.0.0.1:0",
            "--control",
            "127.0.0.1:0",
            "--state-dir",
            &state,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut lines = BufReader::new(again.stdout.take().context("stdout")?).lines();
    let ready = timeout(LIMIT, lines.next_line()).await??.unwrap_or_default();
    ensure!(ready.starts_with("ready 127.0.0.1:"), "{ready}");
    Ok(())
}
