//! `longhaul speed`: a page directly and through the pair.
use anyhow::{Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use longhaul_tests::client::ask;
use longhaul_tests::{
    origin::Origin,
    process::{Finished, Running, run_with_hosts},
};
use longhaul_types::BitRate;
use serde_json::Value;

use crate::{
    content::{noise, ok},
    doctor::is_root,
    metered::nmcli,
    pair::{COMMAND_LIMIT, HOSTS, LIMIT, Link, Pair, Setup, agent_arguments, control, folder, status_until},
};

/// The origin's name for the gateway, the agent and the command. Hosts that are local by their form are never loaded through
/// the gateway.
const NAME: &str = "site.test";

/// Random bytes in the style sheet.
const STYLE: usize = 40_000;

/// A page with a style sheet that does not compress, and a picture that the origin lacks if `is_broken`.
async fn origin(is_broken: bool) -> Result<Origin> {
    let respond = move |request: Request<Incoming>| async move {
        match request.uri().path() {
            "/" => {
                let broken = if is_broken { "<img src=/lost.png>" } else { "" };
                ok(
                    "text/html",
                    format!("<link rel=stylesheet href=/a.css>{broken}<p>text"),
                )
            }
            "/a.css" => {
                let digits = STANDARD.encode(noise(STYLE, 1));
                ok("text/css", format!("/* {digits} */"))
            }
            _ => {
                let mut missing = ok("text/plain", "");
                *missing.status_mut() = StatusCode::NOT_FOUND;
                missing
            }
        }
    };
    Origin::start(None, |_| {}, respond).await
}

/// A pair whose gateway and whose agent find the origin on this machine.
async fn pair(origin: &Origin, link: Link) -> Result<Pair> {
    let setup = Setup {
        agent_hosts: "127.0.0.1 site.test\n",
        ..Setup::resolving(&[(NAME, origin.address())])
    };
    let pair = Pair::start(setup.over(link)).await?;
    pair.status_until(|status| status["state"] == "open").await?;
    Ok(pair)
}

fn state_dir(pair: &Pair) -> String {
    pair.folder().join("agent").display().to_string()
}

/// Runs `longhaul` with the agent's hosts file.
async fn longhaul(pair: &Pair, arguments: &[&str]) -> Result<Finished> {
    run_with_hosts(&pair.folder().join(HOSTS), "longhaul", arguments, COMMAND_LIMIT).await
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_measured_directly_and_through_longhaul() -> Result<()> {
    if !is_root("a hosts file for one program")? {
        return Ok(());
    }
    let origin = origin(false).await?;
    let mut pair = pair(&origin, Link::Paced(BitRate::kbps(1_000))).await?;
    let page = format!("http://{NAME}:{}/", origin.address().port());
    let state = state_dir(&pair);
    let arguments = ["speed", &page, "--yes", "--json", "--state-dir", &state];
    let output = longhaul(&pair, &arguments).await?;
    ensure!(output.code == Some(0), "{}", output.stderr);
    assert!(output.stderr.contains("3 times directly"), "{}", output.stderr);
    let result: Value = serde_json::from_str(&output.stdout)?;
    for way in ["direct", "longhaul"] {
        let loads = result[way].as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(loads.len(), 3, "{result}");
        for load in loads {
            assert_eq!(
                (&load["objects"], &load["failed"]),
                (&2.into(), &0.into()),
                "{result}"
            );
        }
    }
    // The direct loads take no part of the hop, and the agent has the style sheet after the first load.
    let bytes = |way: &str, load: usize| number(&result[way][load]["bytes"]);
    assert!(
        bytes("direct", 0) > 40_000.0 && bytes("direct", 2) > 40_000.0,
        "{result}"
    );
    assert!(bytes("longhaul", 2) < bytes("longhaul", 0) / 2.0, "{result}");
    // Six of eight bits of base64 are information.
    let ideal = number(&result["ideal_bytes"]);
    assert!(ideal > 40_000.0 && ideal < 50_000.0, "{result}");
    assert!(
        number(&result["rate_bps"]) > 0.0 && number(&result["rtt_ms"]) > 0.0,
        "{result}"
    );
    assert!(
        number(&result["ideal_s"]) > number(&result["rtt_ms"]) / 1_000.0,
        "{result}"
    );
    assert_eq!(result["carrier"], "udp");

    // Without a name, the page that the agent has loaded last.
    let arguments = ["speed", "--yes", "--loads", "1", "--state-dir", &state];
    let output = longhaul(&pair, &arguments).await?;
    ensure!(output.code == Some(0), "{}", output.stderr);
    assert!(
        output.stderr.contains(&page) && output.stderr.contains("about"),
        "{}",
        output.stderr
    );
    for words in ["direct", "Longhaul", "link", "ideal", "first load"] {
        assert!(output.stdout.contains(words), "no `{words}` in {}", output.stdout);
    }
    measured_by_button(&pair, &page).await?;
    pair.end().await
}

/// The button of the dashboard needs the token, and shows the same result.
async fn measured_by_button(pair: &Pair, page: &str) -> Result<()> {
    let (control, token) = (
        pair.control()?,
        std::fs::read_to_string(pair.folder().join("agent/control-token"))?,
    );
    let request = |method: &str, path: &str, more: &str| {
        format!("{method} {path} HTTP/1.1\r\nHost: {control}\r\n{more}Connection: close\r\n\r\n")
    };
    let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
    let journal = ask(control, request("GET", "/journal.json", &bearer)).await?;
    let journal: Vec<Value> = serde_json::from_slice(&journal.body)?;
    let loaded = journal.iter().find(|record| record["url"] == page);
    let number = loaded
        .and_then(|record| record["number"].as_u64())
        .unwrap_or_default();
    let shown = ask(
        control,
        request("GET", &format!("/page?number={number}"), &bearer),
    )
    .await?;
    let button = format!("/measure?number={number}");
    assert!(String::from_utf8_lossy(&shown.body).contains(&button), "a button");
    let own = format!("Origin: http://{control}\r\nContent-Length: 0\r\n");
    let refused = ask(control, request("POST", &button, &own)).await?;
    assert_eq!(refused.status, 403, "{refused:?}");
    let fields = format!("{bearer}Origin: http://{control}\r\nContent-Length: 0\r\nAccept: text/html\r\n");
    let told = ask(control, request("POST", &button, &fields)).await?;
    let words = String::from_utf8_lossy(&told.body);
    assert!(told.status == 200 && words.contains("first load"), "{words}");
    let lost = ask(control, request("POST", "/measure?number=999", &fields)).await?;
    assert_eq!(lost.status, 404, "{lost:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_loaded_unasked() -> Result<()> {
    if !is_root("a hosts file for one program")? {
        return Ok(());
    }
    let origin = origin(true).await?;
    let pair = pair(&origin, Link::Direct).await?;
    let page = format!("http://{NAME}:{}/", origin.address().port());
    let state = state_dir(&pair);
    let refused = |output: Finished, words: &str| {
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        assert!(output.stderr.contains(words), "no `{words}` in {}", output.stderr);
    };
    // Without a terminal nobody can be asked.
    let output = longhaul(&pair, &["speed", &page, "--state-dir", &state]).await?;
    refused(output, "--yes");
    let output = longhaul(&pair, &["speed", "--yes", "--state-dir", &state]).await?;
    refused(output, "name a page");
    let small = ["speed", &page, "--yes", "--limit", "10kB", "--state-dir", &state];
    refused(longhaul(&pair, &small).await?, "--limit");
    // What does not arrive is said, and is no success.
    let once = ["speed", &page, "--yes", "--loads", "1", "--state-dir", &state];
    let output = longhaul(&pair, &once).await?;
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(output.stdout.contains("/lost.png"), "{}", output.stdout);

    let asked = origin.seen().len();
    let path = folder()?;
    nmcli(path.path(), "yes")?;
    let metered = Running::start_with(
        "longhaul-agent",
        &agent_arguments(path.path(), pair.second_invite(), &[]),
        &[("PATH", path.path().as_os_str())],
    )
    .await?;
    let of_metered = path.path().join("agent").display().to_string();
    status_until(control(path.path())?, |status| status["state"] == "open").await?;
    let arguments = ["speed", &page, "--yes", "--state-dir", &of_metered];
    refused(longhaul(&pair, &arguments).await?, "--metered");
    assert_eq!(origin.seen().len(), asked, "nothing was loaded");
    metered.end("INT", LIMIT).await?;
    Ok(())
}
