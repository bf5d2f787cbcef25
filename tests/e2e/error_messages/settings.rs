//! Messages about settings, ports and invites that are wrong.
use anyhow::Result;
use longhaul_tests::process::run;
use longhaul_types::SecretKey;
use tokio::net::{TcpListener, UdpSocket};

use super::{AGENT, GATEWAY, admission::invite_with, assert_misconfigured, assert_refused, assert_says};
use crate::pair::{COMMAND_LIMIT, folder};

#[tokio::test]
async fn a_port_in_use_is_named_in_the_error() -> Result<()> {
    let folder = folder()?;
    let state = folder.path().join("state").display().to_string();
    let taken = UdpSocket::bind(("127.0.0.1", 0)).await?;
    let address = taken.local_addr()?.to_string();
    let gateway = run(
        GATEWAY,
        &["run", "--listen", &address, "--state-dir", &state],
        COMMAND_LIMIT,
    )
    .await?;
    let port = taken.local_addr()?.port().to_string();
    assert_refused(
        "the gateway's port in use",
        &gateway,
        &[&port, "taken by another program", "--listen"],
    );

    let line = invite_with("gw.test:4433", &SecretKey::from_bytes([8; 32]), 7)?;
    let taken = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = taken.local_addr()?.to_string();
    for (flag, other) in [("--listen", "--control"), ("--control", "--listen")] {
        let arguments = [
            "run",
            flag,
            &address,
            other,
            "127.0.0.1:0",
            "--state-dir",
            &state,
            "--invite",
            &line,
        ];
        let agent = run(AGENT, &arguments, COMMAND_LIMIT).await?;
        assert_refused(
            &format!("the agent's {flag} in use"),
            &agent,
            &[&address, "in use", flag],
        );
    }
    Ok(())
}

#[tokio::test]
async fn all_mistakes_in_settings_are_reported_with_their_position() -> Result<()> {
    let folder = folder()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let state = path("state");
    let line = invite_with("gw.test:4433", &SecretKey::from_bytes([8; 32]), 7)?;
    std::fs::write(folder.path().join("unknown.toml"), "lissten = '127.0.0.1:1'\n")?;
    std::fs::write(folder.path().join("no-toml.toml"), "listen 127.0.0.1\n")?;
    std::fs::write(folder.path().join("binary.toml"), [0xff, 0xfe, 0, 1])?;
    for program in [GATEWAY, AGENT] {
        for (file, says) in [
            ("missing.toml", &["missing.toml"][..]),
            ("unknown.toml", &["unknown.toml", "lissten"]),
            ("no-toml.toml", &["no-toml.toml", "line 1"]),
            ("binary.toml", &["binary.toml"]),
            ("", &["configuration"]),
        ] {
            let config = path(file);
            for command in ["check-config", "run"] {
                let mut arguments = vec![command, "--config", &config, "--state-dir", &state];
                if program == AGENT {
                    arguments.extend(["--invite", &line]);
                }
                let refused = run(program, &arguments, COMMAND_LIMIT).await?;
                assert_misconfigured(&format!("{program} {command} with `{file}`"), &refused, says);
            }
        }
    }
    let arguments = [
        "check-config",
        "--listen",
        "4433",
        "--allow",
        "10.0.0.0/33",
        "--resolve",
        "a.test",
        "--state-dir",
        &state,
    ];
    let refused = run(GATEWAY, &arguments, COMMAND_LIMIT).await?;
    assert_misconfigured(
        "three mistakes of an operator",
        &refused,
        &["--listen", "ADDR:PORT", "--allow", "--resolve", "NAME=ADDR"],
    );
    let arguments = [
        "check-config",
        "--listen",
        "3128",
        "--control",
        "0.0.0.0:1",
        "--link",
        "fast",
        "--fallback-after",
        "10",
        "--invite",
        &line,
    ];
    let refused = run(AGENT, &arguments, COMMAND_LIMIT).await?;
    assert_misconfigured(
        "four mistakes of a user",
        &refused,
        &[
            "--listen",
            "--control",
            "--link",
            "--fallback-after",
            "needs a unit",
        ],
    );
    Ok(())
}

#[tokio::test]
async fn invalid_invites_are_refused_with_an_explanation() -> Result<()> {
    let folder = folder()?;
    let state = folder.path().join("state").display().to_string();
    let line = invite_with("gw.test:4433", &SecretKey::from_bytes([8; 32]), 7)?;
    let cut = &line[..line.len() - 3];
    for (what, invite, says) in [
        ("a cut invite", cut, "damaged"),
        ("another text", "hello", "longhaul1:"),
    ] {
        let arguments = [
            "run",
            "--listen",
            "127.0.0.1:0",
            "--state-dir",
            &state,
            "--invite",
            invite,
        ];
        let refused = run(AGENT, &arguments, COMMAND_LIMIT).await?;
        assert_misconfigured(what, &refused, &["--invite", says, "whole line"]);
        let refused = run(
            "longhaul",
            &["enroll", invite, "--state-dir", &state],
            COMMAND_LIMIT,
        )
        .await?;
        assert_eq!(refused.code, Some(2), "{what}");
        assert_says(
            &format!("enrolling {what}"),
            &refused.stderr,
            &[says, "whole line"],
        );
    }
    let arguments = ["run", "--listen", "127.0.0.1:0", "--state-dir", &state];
    let refused = run(AGENT, &arguments, COMMAND_LIMIT).await?;
    assert_misconfigured(
        "no invite",
        &refused,
        &["not enrolled", "longhaul enroll", "operator"],
    );
    let refused = run(
        GATEWAY,
        &[
            "invite",
            "--state-dir",
            &state,
            "--name",
            "x",
            "--address",
            "gw.test",
        ],
        COMMAND_LIMIT,
    )
    .await?;
    assert_refused("an invite without a port", &refused, &["--address", "HOST:PORT"]);
    Ok(())
}
