//! Agents that listen on other addresses than loopback.
use std::{net::SocketAddr, os::unix::fs::PermissionsExt as _};

use anyhow::{Context as _, Result};
use longhaul_tests::{
    client::{RawClient, ask},
    process::{Running, run},
};

use super::{basic, hello_origin};
use crate::pair::{COMMAND_LIMIT, Pair, Setup, folder, invite};

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
