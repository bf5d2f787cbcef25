//! Findings on the device itself: ports, disk, trust stores, bypassed hosts.
use tokio::net::TcpListener;

use super::*;

#[tokio::test]
async fn the_program_that_holds_the_agents_port_is_named() -> Result<()> {
    let folder = folder()?;
    let (_gateway, line) = gateway(folder.path(), "").await?;
    let device = Device::enrolled(&line).await?;
    let taken = TcpListener::bind(("127.0.0.1", 0)).await?;
    device.configure(&taken.local_addr()?.to_string())?;
    let report = device.report(&[]).await?;
    let finding = &report["findings"][0];
    assert_eq!(finding["kind"], "port_taken", "{report:#}");
    assert_eq!(finding["mend"], format!("kill {}", std::process::id()));
    let what = finding["what"].as_str().context("text")?;
    assert!(what.contains(&taken.local_addr()?.to_string()), "{what}");
    Ok(())
}

#[tokio::test]
async fn a_full_disk_is_found() -> Result<()> {
    if !is_root("a small file system")? {
        return Ok(());
    }
    let device = Device::new()?;
    let state = device.state();
    std::fs::create_dir_all(&state)?;
    let longhaul = longhaul_tests::process::program(LONGHAUL)?;
    // The file system exists only in the namespace of this shell.
    let script = format!(
        "mount -t tmpfs -o size=256k tmpfs {0} && head -c 1m /dev/zero > {0}/filler 2>/dev/null; \
         exec {1} doctor --json --home {2}",
        state.display(),
        longhaul.display(),
        device.home().display()
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .env("LONGHAUL_CONFIG", "/dev/null")
        .output()
        .await?;
    let report = report_of(&Finished {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    })?;
    assert_eq!(report["findings"][0]["kind"], "disk_full", "{report:#}");
    Ok(())
}

#[tokio::test]
async fn a_certificate_authority_that_a_browser_does_not_trust_is_found() -> Result<()> {
    let folder = folder()?;
    let (_gateway, line) = gateway(folder.path(), "").await?;
    let device = Device::enrolled(&line).await?;
    let _agent = device.start_agent(&["--https-accelerate", "all"]).await?;
    let database = device.home().join(".local/share/pki/nssdb");
    std::fs::create_dir_all(&database)?;
    let certutil = format!("certutil -d sql:{}", database.display());
    shell(&format!("{certutil} -N --empty-password")).await?;
    let report = device.report(&[]).await?;
    let missing = "does not trust this device's certificate authority";
    let what = report["findings"][1]["what"].as_str().unwrap_or_default();
    assert_eq!(report["findings"][1]["kind"], "ca_missing", "{report:#}");
    assert!(what.contains(missing) && what.contains("Chromium"), "{what}");

    let authority = device.state().join("ca.pem");
    shell(&format!(
        "{certutil} -A -n 'Longhaul on this device' -t C,, -i {}",
        authority.display()
    ))
    .await?;
    assert_eq!(device.doctor(&[]).await?, ["no_browser"]);
    shell(&format!("{certutil} -D -n 'Longhaul on this device'")).await?;
    assert_eq!(device.doctor(&[]).await?, ["no_browser", "ca_missing"]);
    Ok(())
}

#[tokio::test]
async fn bypassed_hosts_are_listed_with_and_without_an_agent() -> Result<()> {
    let folder = folder()?;
    let (_gateway, line) = gateway(folder.path(), "").await?;
    let device = Device::enrolled(&line).await?;
    let hour = Duration::from_secs(3600);
    let until = (std::time::SystemTime::now() + hour).duration_since(std::time::UNIX_EPOCH)?;
    let list = format!(
        r#"[{{"host":"bank.test","why":"refused-by-client","until":{},"program":"0000000000000007"}},{{"host":"old.test","why":"not-http","until":1}}]"#,
        until.as_secs()
    );
    std::fs::write(device.state().join("unaccelerated.json"), list)?;
    let mend = |report: &Value, at: usize| report["findings"][at]["mend"].clone();
    let report = device.report(&[]).await?;
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(2), "{report:#}");
    assert_eq!(mend(&report, 1), "longhaul-agent https forget bank.test");

    let _agent = device.start_agent(&["--https-accelerate", "all"]).await?;
    let report = device.report(&[]).await?;
    assert_eq!(
        mend(&report, 1),
        "longhaul-agent https forget bank.test",
        "{report:#}"
    );
    let what = report["findings"][1]["what"].as_str().unwrap_or_default();
    assert!(
        what.contains("does not accept this device's certificates"),
        "{what}"
    );
    Ok(())
}
