//! Access control of the agent's ports, and the targets of its direct fallback.
use std::{
    net::SocketAddr,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{RawClient, RawResponse, ask, get, request},
    origin::Origin,
    process::{Running, run},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
    time::timeout,
};

use crate::{
    content::ok,
    pair::{COMMAND_LIMIT, LIMIT, Pair, Setup, control, folder, free_udp_port, invite, start_agent},
};

/// The user `nobody`, which has no rights on any Linux system.
const NOBODY: u32 = 65_534;

/// True if this test can act as another user; prints a note if not.
fn can_act_as_nobody() -> Result<bool> {
    let is_root = std::fs::metadata("/proc/self")?.uid() == 0;
    if !is_root {
        println!("NOT TESTED: only root can be another user; run this test as root");
    }
    Ok(is_root)
}

/// Response of a port to bytes that user `nobody` sends.
async fn response_to_nobody(to: SocketAddr, bytes: &str) -> Result<String> {
    let talk = format!("exec 3<>/dev/tcp/{}/{} && cat >&3 && cat <&3", to.ip(), to.port());
    let mut child = Command::new("bash")
        .args(["-c", &talk])
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child.stdin.take().context("stdin")?;
    stdin.write_all(bytes.as_bytes()).await?;
    drop(stdin);
    let output = timeout(LIMIT, child.wait_with_output()).await??;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn hello_origin() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |_: Request<Incoming>| async { ok("text/plain", "hello") },
    )
    .await
}

fn control_request(method: &str, path: &str, at: SocketAddr, fields: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: {at}\r\n{fields}Connection: close\r\n\r\n")
}

fn basic(pair: &str) -> String {
    format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(pair))
}

#[tokio::test(flavor = "multi_thread")]
async fn other_users_of_the_machine_are_refused_unless_allowed() -> Result<()> {
    if !can_act_as_nobody()? {
        return Ok(());
    }
    let origin = hello_origin().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    let fetch = "GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";
    let connect = "CONNECT site.test:443 HTTP/1.1\r\nHost: site.test:443\r\n\r\n";
    let script = control_request("GET", "/proxy.pac", pair.proxy(), "");
    for asked in [fetch, connect, &script] {
        let answer = response_to_nobody(pair.proxy(), asked).await?;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{asked}: {answer}");
        assert!(answer.contains("listen.users"), "{answer}");
    }
    let at = pair.control()?;
    let origin_field = format!("Origin: http://{at}\r\nContent-Length: 0\r\n");
    let change = control_request("POST", "/pictures?level=low", at, &origin_field);
    for path in ["/", "/status.json", "/proxy.pac"] {
        let answer = response_to_nobody(at, &control_request("GET", path, at, "")).await?;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{path}: {answer}");
    }
    let answer = response_to_nobody(at, &change).await?;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(origin.seen().is_empty(), "a refused request reached the origin");
    // The agent's own user is still served.
    assert_eq!(pair.get("http://site.test/").await?.text(), "hello");
    assert_eq!(pair.status().await?["requests"], 1);

    let open = pair
        .second_agent_with("open", &["--listen-users", "nobody"])
        .await?;
    let answer = response_to_nobody(open.address(), fetch).await?;
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("hello"),
        "{answer}"
    );
    let at = control(&pair.folder().join("open"))?;
    let script = response_to_nobody(at, &control_request("GET", "/proxy.pac", at, "")).await?;
    assert!(script.contains("FindProxyForURL"), "{script}");
    let status = response_to_nobody(at, &control_request("GET", "/status.json", at, "")).await?;
    assert!(status.starts_with("HTTP/1.1 403 "), "{status}");
    Ok(())
}

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

/// An address of this machine that other machines could reach.
fn interface() -> Option<std::net::IpAddr> {
    // Connecting a UDP socket sends nothing; the kernel selects the source address.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[tokio::test]
async fn the_agent_does_not_start_as_an_open_relay() -> Result<()> {
    let folder = folder()?;
    let state = folder.path().join("agent").display().to_string();
    let line = valid_invite();
    let passwords = folder.path().join("passwords");
    std::fs::write(&passwords, "me:a long password\n")?;
    std::fs::set_permissions(&passwords, std::fs::Permissions::from_mode(0o600))?;
    let passwords = passwords.display().to_string();
    let mut addresses = vec![
        "0.0.0.0:0".to_owned(),
        "[::]:0".to_owned(),
        "[::ffff:0.0.0.0]:0".to_owned(),
    ];
    addresses.extend(interface().map(|ip| SocketAddr::new(ip, 0).to_string()));
    for address in &addresses {
        for more in [
            &[][..],
            &["--listen-allow", "192.168.0.0/16"],
            &["--listen-password-file", &passwords],
        ] {
            for command in ["run", "check-config"] {
                let mut arguments = vec![
                    command,
                    "--listen",
                    address,
                    "--state-dir",
                    &state,
                    "--invite",
                    &line,
                ];
                arguments.extend(more);
                let refused = run("longhaul-agent", &arguments, COMMAND_LIMIT).await?;
                // EX_CONFIG of sysexits: a mistake of the configuration.
                assert_eq!(refused.code, Some(78), "{address} {more:?}: {refused:?}");
                for words in ["--listen", "listen.allow", "listen.password-file", "127.0.0.1"] {
                    assert!(
                        refused.stderr.contains(words),
                        "{address} {more:?}: {}",
                        refused.stderr
                    );
                }
            }
        }
    }
    // A password file that other users can read is refused.
    std::fs::set_permissions(&passwords, std::fs::Permissions::from_mode(0o644))?;
    let arguments = [
        "check-config",
        "--state-dir",
        &state,
        "--invite",
        &line,
        "--listen-password-file",
        &passwords,
    ];
    let refused = run("longhaul-agent", &arguments, COMMAND_LIMIT).await?;
    assert!(
        refused.code == Some(78) && refused.stderr.contains("chmod 600"),
        "{refused:?}"
    );
    Ok(())
}

/// A valid invite of no gateway, for commands that do not connect.
fn valid_invite() -> String {
    let secret = |byte| longhaul_types::SecretKey::from_bytes([byte; 32]);
    let invite =
        longhaul_types::Invite::new("127.0.0.1:9".to_owned(), secret(1).public(), secret(2), [3; 32]);
    invite.expect("a valid invite").to_line()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_beyond_loopback_requires_a_password_and_removes_it() -> Result<()> {
    let origin = hello_origin().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    let folder = pair.folder().join("open");
    std::fs::create_dir(&folder)?;
    let passwords = folder.join("passwords");
    std::fs::write(&passwords, "# who\nme:a long password\nyou:another password\n")?;
    std::fs::set_permissions(&passwords, std::fs::Permissions::from_mode(0o600))?;
    let line = invite(pair.folder(), "open", &pair.gateway().address().to_string()).await?;
    let path = |name: &str| folder.join(name).display().to_string();
    let (state, passwords) = (path("agent"), path("passwords"));
    let arguments = [
        "run",
        "--listen",
        "0.0.0.0:0",
        "--listen-allow",
        "192.0.2.0/24",
        "--listen-password-file",
        &passwords,
        "--control",
        "127.0.0.1:0",
        "--fallback-after",
        "never",
        "--state-dir",
        &state,
        "--invite",
        &line,
    ];
    let agent = Running::start("longhaul-agent", &arguments).await?;
    let mut doors = vec![SocketAddr::from(([127, 0, 0, 1], agent.address().port()))];
    doors.extend(interface().map(|ip| SocketAddr::new(ip, agent.address().port())));
    let (me, you) = (basic("me:a long password"), basic("you:another password"));
    for door in doors {
        let fetch =
            |fields: &str| format!("GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\n{fields}\r\n");
        for (what, fields) in [
            ("none", String::new()),
            ("a wrong one", basic("me:another password")),
            ("another scheme", me.replace("Basic", "Bearer")),
            ("in the origin's field", me.replace("Proxy-", "")),
        ] {
            let refused = ask(door, fetch(&fields)).await?;
            assert_eq!(refused.status, 407, "{what}");
            let challenge = refused.field("proxy-authenticate").context("no challenge")?;
            assert!(challenge.starts_with("Basic realm="), "{challenge}");
        }
        let connect = "CONNECT site.test:443 HTTP/1.1\r\nHost: site.test:443\r\n\r\n";
        assert_eq!(ask(door, connect).await?.status, 407);
        // A proxy connection belongs to the client that authenticated on it.
        let mut client = RawClient::connect(door).await?;
        client.send(fetch("")).await?;
        assert_eq!(client.response().await?.status, 407);
        for _ in 0..2 {
            client.send(fetch(&me)).await?;
            assert_eq!(client.response().await?.text(), "hello");
        }
        client.send(fetch(&you)).await?;
        assert_eq!(
            client.response().await?.status,
            407,
            "a connection of another client"
        );
        assert_eq!(ask(door, fetch(&you)).await?.text(), "hello");
    }
    let seen = origin.seen();
    assert!(!seen.is_empty());
    for request in seen {
        assert!(
            !request.headers.contains_key("proxy-authorization"),
            "{request:?}"
        );
        assert!(!request.headers.contains_key("authorization"), "{request:?}");
    }
    Ok(())
}

/// An agent whose gateway does not answer, with further settings.
async fn agent_without_gateway(folder: &Path, more: &[&str]) -> Result<Running> {
    let line = invite(folder, "alone", &free_udp_port().await?.to_string()).await?;
    let mut arguments = vec!["--fallback-after".to_owned(), "1s".to_owned()];
    arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
    start_agent(folder, &line, &arguments).await
}

/// Sends a request and a CONNECT request for the same target.
async fn request_and_connect(proxy: SocketAddr, target: &str) -> Result<[RawResponse; 2]> {
    let connect = request("CONNECT", target, &[]);
    Ok([
        ask(proxy, get(&format!("http://{target}/"), &[])).await?,
        ask(proxy, connect).await?,
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_fallback_reaches_neither_local_addresses_nor_the_agent() -> Result<()> {
    let admitted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&admitted);
    let origin = Origin::start(
        None,
        move |_| {
            count.fetch_add(1, Relaxed);
        },
        |_: Request<Incoming>| async { ok("text/plain", "hello") },
    )
    .await?;
    let port = origin.address().port();
    let closed = folder()?;
    let agent = agent_without_gateway(closed.path(), &[]).await?;
    let control_at = control(closed.path())?;
    for host in [
        "127.0.0.1",
        "localhost",
        "any.localhost",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "0.0.0.0",
        "127.0.0.2",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "169.254.169.254",
        "169.254.1.1",
        "[fe80::1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::1]",
    ] {
        for port in [port, control_at.port()] {
            for answer in request_and_connect(agent.address(), &format!("{host}:{port}")).await? {
                assert!(
                    matches!(answer.status, 400 | 403),
                    "{host}:{port}: {} {}",
                    answer.status,
                    answer.text()
                );
                if answer.status == 403 {
                    assert!(
                        answer.text().contains("direct.allow"),
                        "{host}: {}",
                        answer.text()
                    );
                }
            }
        }
    }
    assert_eq!(
        admitted.load(Relaxed),
        0,
        "the agent connected to a refused target"
    );

    // Addresses that the settings allow are reached, except for the agent's own ports.
    let open = folder()?;
    let agent = agent_without_gateway(open.path(), &["--direct-allow", "127.0.0.0/8, ::1"]).await?;
    let answer = ask(agent.address(), get(&format!("http://127.0.0.1:{port}/"), &[])).await?;
    assert_eq!(answer.text(), "hello");
    let control_at = control(open.path())?;
    for host in ["127.0.0.1", "localhost", "127.0.0.2", "[::ffff:127.0.0.1]"] {
        for answer in request_and_connect(agent.address(), &format!("{host}:{}", control_at.port())).await? {
            assert_eq!(answer.status, 403, "{host}: {}", answer.text());
        }
        let own = request("CONNECT", &format!("{host}:{}", agent.address().port()), &[]);
        assert_eq!(ask(agent.address(), own).await?.status, 403, "{host}");
    }
    Ok(())
}

/// Sends an incomplete request on a new connection, which stays open.
async fn open_with(to: SocketAddr, bytes: &[u8]) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(to).await?;
    stream.write_all(bytes).await?;
    Ok(stream)
}

/// Memory of a process in kilobytes.
fn memory(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .context("VmRSS")?;
    Ok(line
        .split_ascii_whitespace()
        .nth(1)
        .context("a number")?
        .parse()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_incomplete_requests_do_not_exhaust_the_agent() -> Result<()> {
    /// More than the agent's connection limit.
    const CONNECTIONS: usize = 2500;
    let origin = hello_origin().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    assert_eq!(pair.get("http://site.test/").await?.text(), "hello");
    let before = memory(pair.agent().pid())?;
    for (what, beginning) in [
        ("half a request line", &b"GET http://site.te"[..]),
        (
            "half a head",
            b"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\nCookie: a",
        ),
        ("half a CONNECT", b"CONNECT site.test:443 HTTP/1.1\r\nHost: si"),
        ("nothing", b""),
    ] {
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS {
            held.push(open_with(pair.proxy(), beginning).await?);
        }
        let answer = timeout(LIMIT, pair.get("http://site.test/")).await;
        assert_eq!(answer.with_context(|| what)??.text(), "hello", "{what}");
        if what == "nothing" {
            // The oldest connections were closed in favour of new ones.
            let mut end = [0];
            let read = timeout(LIMIT, held[0].read(&mut end)).await?;
            assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
        }
        let now = memory(pair.agent().pid())?;
        println!("{CONNECTIONS} connections with {what}: memory {before} kB before, {now} kB after");
        assert!(now < before + 100 * 1024, "{what}");
    }
    Ok(())
}
