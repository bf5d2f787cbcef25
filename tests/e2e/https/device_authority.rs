//! Commands for the device's certificate authority.
use anyhow::Result;
use longhaul_tests::process::run;

use crate::pair::COMMAND_LIMIT;

#[tokio::test(flavor = "multi_thread")]
async fn commands_show_and_remove_the_certificate_authority() -> Result<()> {
    let home = tempfile::tempdir()?;
    let state = home.path().join("state").display().to_string();
    let ca = |verb: &'static str| {
        let state = state.clone();
        async move {
            run(
                "longhaul-agent",
                &["ca", verb, "--state-dir", &state],
                COMMAND_LIMIT,
            )
            .await
        }
    };
    let missing = ca("fingerprint").await?;
    assert!(
        missing.code != Some(0) && missing.stderr.contains("ca export"),
        "{missing:?}"
    );
    let first = ca("export").await?.stdout;
    assert_eq!(first, ca("export").await?.stdout);
    let fingerprint = ca("fingerprint").await?.stdout;
    assert_eq!(fingerprint.trim().split(':').count(), 32, "{fingerprint}");
    assert!(ca("remove").await?.stdout.contains("removed"));
    assert!(
        ca("remove")
            .await?
            .stdout
            .contains("there was no certificate authority")
    );
    assert_ne!(first, ca("export").await?.stdout);
    Ok(())
}
