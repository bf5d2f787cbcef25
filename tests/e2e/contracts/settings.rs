//! Layers of settings.
use anyhow::Result;
use longhaul_tests::process::{run, run_with};

use super::{AGENT, GATEWAY};
use crate::pair::{COMMAND_LIMIT, folder};

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
