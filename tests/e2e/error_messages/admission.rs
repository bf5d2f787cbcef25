//! Messages when a gateway refuses the device or its invite.
use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};
use longhaul_tests::{
    client::{ask, get},
    process::run,
};
use longhaul_types::{Invite, SecretKey};
use tokio::time::timeout;

use super::{GATEWAY, assert_page, assert_says, hello_origin, page_text};
use crate::pair::{COMMAND_LIMIT, Pair, Setup, control, invite, start_agent, status_until};

#[tokio::test]
async fn a_revoked_device_gets_an_explanation_and_its_session_ends() -> Result<()> {
    let origin = hello_origin().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    assert_eq!(pair.get("http://site.test/").await?.text(), "hello");
    let state = pair.folder().join("gateway").display().to_string();
    let revoked = run(
        GATEWAY,
        &["device", "revoke", "test", "--state-dir", &state],
        COMMAND_LIMIT,
    )
    .await?;
    assert_eq!(revoked.code, Some(0), "{}", revoked.stderr);
    let down = pair.status_until(|status| status["state"] == "down").await?;
    assert_says(
        "the status of a revoked device",
        down["reason"].as_str().unwrap_or_default(),
        &["refused", "operator"],
    );
    let page = pair.get("http://site.test/").await?;
    assert_page(
        "a page of a revoked device",
        &page,
        502,
        &["gateway refuses this device", "operator", "revoked"],
    );
    assert_eq!(
        origin.seen().len(),
        1,
        "the gateway fetches nothing for the revoked device"
    );
    Ok(())
}

/// An invite with the parts of an existing one and other keys.
pub(super) fn invite_with(address: &str, gateway: &SecretKey, device: u8) -> Result<String> {
    let device = SecretKey::from_bytes([device; 32]);
    Ok(Invite::new(address.to_owned(), gateway.public(), device, [0; 32])?.to_line())
}

#[tokio::test]
async fn wrong_keys_are_refused_with_an_explanation() -> Result<()> {
    let pair = Pair::start(Setup::resolving(&[])).await?;
    let address = pair.gateway().address().to_string();
    let never = ["--fallback-after".to_owned(), "never".to_owned()];

    // An unknown device: the correct gateway key with another device's key.
    let line = invite(pair.folder(), "known", &address).await?;
    let known: Invite = line.parse()?;
    let unknown = Invite::new(
        address.clone(),
        known.gateway(),
        SecretKey::from_bytes([9; 32]),
        [0; 32],
    )?
    .to_line();
    let other_gateway = invite_with(&address, &SecretKey::from_bytes([8; 32]), 7)?;
    for (what, line, code, title, reason) in [
        (
            "unknown device",
            unknown,
            502,
            "gateway refuses this device",
            "operator",
        ),
        (
            "wrong gateway key",
            other_gateway,
            504,
            "gateway does not answer",
            "key is not this gateway's",
        ),
    ] {
        let folder = pair.folder().join(what);
        std::fs::create_dir(&folder)?;
        let agent = start_agent(&folder, &line, &never).await?;
        let (page, status) = tokio::try_join!(
            ask(agent.address(), get("http://site.test/", &[])),
            status_until(control(&folder)?, |status| status["reason"].is_string()),
        )?;
        assert_page(&format!("a page with {what}"), &page, code, &[title]);
        assert_says(
            &format!("the status with {what}"),
            status["reason"].as_str().unwrap_or_default(),
            &[reason],
        );
    }
    Ok(())
}

#[tokio::test]
async fn an_agent_that_starts_right_after_its_invite_is_admitted() -> Result<()> {
    let origin = hello_origin().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    let line = invite(pair.folder(), "hasty", &pair.gateway().address().to_string()).await?;
    let folder: &Path = &pair.folder().join("hasty");
    std::fs::create_dir(folder)?;
    let agent = start_agent(folder, &line, &["--fallback-after".into(), "never".into()]).await?;
    let page = timeout(
        Duration::from_secs(10),
        ask(agent.address(), get("http://site.test/", &[])),
    )
    .await??;
    ensure!(page.status == 200, "{}: {}", page.status, page_text(&page));
    Ok(())
}
