//! Changes at the control port by pages of other origins.
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result};
use longhaul_tests::{client::ask, process::run};

use super::{can_act_as_nobody, control_request, hello_origin, response_to_nobody};
use crate::pair::{COMMAND_LIMIT, Pair, Setup};

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_the_control_port_require_the_control_token() -> Result<()> {
    let pair = Pair::start(Setup::resolving(&[])).await?;
    let at = pair.control()?;
    let file = pair.folder().join("agent/control-token");
    let mode = std::fs::metadata(&file)?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = std::fs::read_to_string(&file)?.trim().to_owned();
    let post = |fields: String| {
        let fields = format!("Content-Length: 0\r\n{fields}");
        ask(at, control_request("POST", "/pictures?level=low", at, &fields))
    };
    let (ours, forged) = (format!("Origin: http://{at}\r\n"), "Origin: http://evil.test\r\n");
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let wrong = format!("Authorization: Bearer {}\r\n", "0".repeat(64));
    for (what, fields) in [
        ("no token", ours.clone()),
        ("a wrong token", format!("{ours}{wrong}")),
        ("a page of another site", format!("{forged}{bearer}")),
        ("no origin", bearer.clone()),
    ] {
        assert_eq!(post(fields).await?.status, 403, "{what}");
    }
    assert_eq!(pair.status().await?["image_level"], "medium");

    // The status command prints an address with the token, and that page sets a cookie.
    let state = pair.folder().join("agent").display().to_string();
    for (program, arguments) in [
        ("longhaul-agent", ["status", "--state-dir", &state]),
        ("longhaul", ["status", "--state-dir", &state]),
    ] {
        let output = run(program, &arguments, COMMAND_LIMIT).await?;
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(
            output.stdout.contains(&format!("http://{at}/?token={token}\n")),
            "{output:?}"
        );
    }
    let entry = ask(at, control_request("GET", &format!("/?token={token}"), at, "")).await?;
    assert_eq!((entry.status, entry.field("location")), (303, Some("/")));
    let cookie = entry.field("set-cookie").context("a cookie")?.to_owned();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains(&token), "{cookie}");
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().context("a pair")?);
    let plain = ask(at, control_request("GET", "/", at, "")).await?.text();
    let page = ask(at, control_request("GET", "/", at, &cookie)).await?.text();
    assert!(
        !plain.contains("<button") && plain.contains("longhaul-agent status"),
        "{plain}"
    );
    assert!(page.contains("<button") && !page.contains(&token), "{page}");
    assert_eq!(post(format!("{ours}{cookie}")).await?.status, 303);
    assert_eq!(pair.status().await?["image_level"], "low");
    assert_eq!(post(format!("{ours}{bearer}")).await?.status, 303);

    if can_act_as_nobody()? {
        let see = |fields: &str| control_request("GET", "/status.json", at, fields);
        let answer = response_to_nobody(at, &see(&cookie)).await?;
        assert!(answer.starts_with("HTTP/1.1 403 "), "a stolen cookie: {answer}");
        let answer = response_to_nobody(at, &see(&bearer)).await?;
        assert!(
            answer.starts_with("HTTP/1.1 200 "),
            "requests with the token are allowed: {answer}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_is_shown_only_to_its_own_pages_and_with_the_token() -> Result<()> {
    let origin = hello_origin().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    let url = "http://site.test/what-was-loaded";
    assert_eq!(pair.get(url).await?.text(), "hello");
    let at = pair.control()?;
    let token = std::fs::read_to_string(pair.folder().join("agent/control-token"))?;
    let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
    let see = |path: &str, fields: String| {
        let fields = format!("{fields}{bearer}");
        ask(at, control_request("GET", path, at, &fields))
    };
    let journal = see("/journal.json", String::new()).await?;
    assert!(journal.text().contains(url), "{}", journal.text());
    assert!(
        !pair.agent().log().text().contains("what-was-loaded"),
        "no URL in the log"
    );

    for path in [
        "/",
        "/live",
        "/page?number=0",
        "/journal.json",
        "/savings.json",
        "/status.json",
        "/dashboard.js",
    ] {
        // DNS rebinding.
        let rebound = format!("GET {path} HTTP/1.1\r\nHost: evil.test\r\n{bearer}Connection: close\r\n\r\n");
        assert_eq!(ask(at, rebound).await?.status, 403, "{path}");
        // A page of another site, and one of another port of this machine.
        for fields in [
            "Origin: http://evil.test\r\n",
            "Origin: http://127.0.0.1:1\r\n",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
            "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: cors\r\n",
        ] {
            assert_eq!(see(path, fields.to_owned()).await?.status, 403, "{path} {fields}");
        }
    }
    for path in ["/live", "/page?number=0", "/journal.json"] {
        let without = ask(at, control_request("GET", path, at, "")).await?;
        assert_eq!(without.status, 403, "{path} without the token");
    }
    let plain = ask(at, control_request("GET", "/", at, "")).await?.text();
    assert!(!plain.contains("site.test"), "{plain}");
    if can_act_as_nobody()? {
        for path in ["/", "/live", "/journal.json", "/savings.json", "/dashboard.css"] {
            let answer = response_to_nobody(at, &control_request("GET", path, at, "")).await?;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{path}: {answer}");
        }
    }
    Ok(())
}
