//! Error messages of the command.
use std::fs;

use super::{bench, folder, path, run, stderr_text, worlds};

/// Runs `pages` with these options, expects failure and returns the error message.
fn refused(options: &[&str]) -> String {
    let folder = folder();
    let results = path(&folder, "results.json");
    let mut command = bench(&["pages", "--runs", "1", "--json"]);
    let output = run(command.arg(&results).args(options));
    assert!(!output.status.success(), "{options:?} succeeded");
    assert!(
        output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    stderr_text(&output)
}

#[test]
fn errors_of_unknown_names_list_the_known_ones() {
    let link = refused(&["--link", "gprs", "--pages", "static"]);
    assert!(
        link.contains("`gprs` is not a link") && link.contains("gprs-3+1"),
        "{link}"
    );
    let page = refused(&["--link", "lte", "--pages", "statik"]);
    assert!(
        page.contains("`statik`") && page.contains("fortunecity"),
        "{page}"
    );
    let system = refused(&["--link", "lte", "--pages", "static", "--system", "squit"]);
    assert!(
        system.contains("`squit`") && system.contains("squid-cache"),
        "{system}"
    );
    let technique = refused(&["--link", "lte", "--pages", "static", "--without", "chk,fec"]);
    assert!(
        technique.contains("`fec` is no technique") && technique.contains("credit"),
        "{technique}"
    );
    let transport = refused(&["--link", "lte", "--pages", "static", "--system", "longhaul-quinn"]);
    assert!(transport.contains("transport --against quinn"), "{transport}");
}

#[test]
fn unsupported_combinations_are_rejected() {
    let h2 = refused(&["--link", "lte", "--pages", "static", "--system", "direct-h2"]);
    assert!(h2.contains("direct-h2") && h2.contains("no HTTP/2"), "{h2}");
    let level = refused(&["--link", "lte", "--pages", "static", "--image-level", "text"]);
    assert!(
        level.contains("image level") || level.contains("longhaul-agent"),
        "{level}"
    );
    let loss = refused(&["--link", "lte", "--pages", "static", "--internet-loss", "100"]);
    assert!(loss.contains("--internet-loss 100"), "{loss}");
    let memory = refused(&[
        "--link",
        "lte",
        "--pages",
        "static",
        "--remembered-from",
        "umts-384",
    ]);
    assert!(memory.contains("--system longhaul-remembered"), "{memory}");
}

#[test]
fn errors_of_links_files_contain_the_mistake() {
    let folder = folder();
    let file = path(&folder, "links.toml");
    fs::write(
        &file,
        "[link.a]\nrate = \"fast\"\ndelay = \"10 ms\"\nqueue = \"10 kB\"\nspeed = 3\n",
    )
    .expect("written");
    let file = file.display().to_string();
    let text = refused(&["--link", "a", "--links-file", &file, "--pages", "static"]);
    for part in ["links.toml", "rate", "fast", "speed"] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    let missing = refused(&[
        "--link",
        "a",
        "--links-file",
        "/nowhere/links.toml",
        "--pages",
        "static",
    ]);
    assert!(missing.contains("/nowhere/links.toml"), "{missing}");
}

#[test]
fn errors_of_recordings_contain_the_file() {
    let folder = folder();
    fs::write(
        path(&folder, "broken.warc"),
        "WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 99\r\n\r\nshort",
    )
    .expect("written");
    let place = folder.path().display().to_string();
    let text = refused(&["--link", "lte", "--pages", &place]);
    assert!(text.contains("broken.warc"), "{text}");
    let empty = super::folder();
    let text = refused(&["--link", "lte", "--pages", &empty.path().display().to_string()]);
    assert!(text.contains("WARC") || text.contains("warc"), "{text}");
}

#[test]
fn errors_of_missing_programs_contain_the_remedy() {
    let folder = folder();
    let results = path(&folder, "results.json");
    let mut command = bench(&["pages", "--link", "lte", "--pages", "static", "--json"]);
    command.arg(&results).env("LONGHAUL_BIN_DIR", folder.path());
    let text = stderr_text(&run(&mut command));
    assert!(
        text.contains("`longhaul-agent` is not in") && text.contains("LONGHAUL_BIN_DIR"),
        "{text}"
    );

    let mut command = bench(&[
        "pages", "--link", "lte", "--pages", "static", "--system", "direct",
    ]);
    command.args(["--loader", "chromium", "--json"]).arg(&results);
    let text = stderr_text(&run(command.env("PATH", folder.path())));
    assert!(text.contains("`chromium` is not installed"), "{text}");
    assert!(!results.exists());
}

#[test]
fn an_unwritable_results_file_is_reported_before_the_run() {
    let text = {
        let mut command = bench(&[
            "pages", "--link", "lte", "--pages", "static", "--system", "direct",
        ]);
        stderr_text(&run(command.args(["--json", "/nowhere/results.json"])))
    };
    if worlds() {
        assert!(text.contains("/nowhere/results.json"), "{text}");
    }
}

/// Runs in a user namespace that may create no further namespaces, as in many containers.
#[test]
fn errors_of_missing_privileges_contain_the_remedy() {
    if !worlds() {
        return;
    }
    let folder = folder();
    let results = path(&folder, "results.json");
    let script = format!(
        "for kind in user mnt net pid; do echo 0 > /proc/sys/user/max_${{kind}}_namespaces; done; \
         exec {} pages --link lte --pages static --system direct --json {}",
        super::BENCH,
        results.display()
    );
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .output()
        .expect("unshare runs");
    let text = stderr_text(&output);
    assert!(!output.status.success());
    assert!(
        text.contains("namespaces") && text.contains("run as root"),
        "{text}"
    );
    assert!(!results.exists());
}

#[test]
fn report_errors_contain_the_invalid_file() {
    let folder = folder();
    let file = path(&folder, "other.json");
    fs::write(&file, "{}").expect("written");
    let out = path(&folder, "report.html");
    let mut command = bench(&["report"]);
    let output = run(command.arg(&file).arg("--out").arg(&out));
    assert!(
        !output.status.success() && stderr_text(&output).contains("other.json"),
        "{}",
        stderr_text(&output)
    );
    assert!(!out.exists());
}
