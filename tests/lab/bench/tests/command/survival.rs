//! A run that is killed and resumed, and a run without root.
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{bench, folder, json, path, run, stderr_text, worlds};

/// Environment variable that marks the processes of one test; children inherit it.
const MARK: &str = "LONGHAUL_BENCH_TEST";

/// Returns the processes with the mark.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let processes = fs::read_dir("/proc").expect("proc");
    let pids = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == wanted.as_bytes())
    })
    .collect()
}

/// Waits until `done` returns true, and checks it again whenever the kernel schedules the test.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{what} did not happen in time"
        );
        std::thread::yield_now();
    }
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

/// SIGKILL in the middle: no process remains, the complete rows are kept, and `--resume` measures the rest.
#[test]
fn a_killed_run_leaves_no_processes_and_can_be_resumed() {
    if !worlds() {
        return;
    }
    let folder = folder();
    let results = path(&folder, "results.json");
    let partial = path(&folder, "results.json.partial");
    let mark = format!("{}-{}", std::process::id(), folder.path().display());
    let options = [
        "pages",
        "--link",
        "umts-384",
        "--pages",
        "altavista",
        "--system",
        "direct,direct-6",
        "--runs",
        "2",
        "--jobs",
        "1",
    ];
    let mut killed = bench(&options)
        .args(["--json"])
        .arg(&results)
        .env(MARK, &mark)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("longhaul-bench runs");
    until("the first row", || lines(&partial) >= 1);
    until("a worker", || marked(&mark).len() > 1);
    killed.kill().expect("killed");
    killed.wait().expect("ended");
    until("the end of all workers", || marked(&mark).is_empty());
    assert!(!results.exists());
    let kept = lines(&partial);
    assert!((1..4).contains(&kept), "{kept} rows");

    let mut command = bench(&options);
    let output = run(command.args(["--resume", "--json"]).arg(&results));
    assert!(output.status.success(), "{}", stderr_text(&output));
    assert!(
        stderr_text(&output).contains("are in"),
        "{}",
        stderr_text(&output)
    );
    assert_eq!(json(&results)["rows"].as_array().map(Vec::len), Some(4));
    assert!(!partial.exists());
    // Everything is complete: nothing is measured, so it ends at once, and the rows are the same.
    let before = fs::read_to_string(&results).expect("results");
    let output = run(bench(&options).args(["--resume", "--json"]).arg(&results));
    assert!(output.status.success(), "{}", stderr_text(&output));
    let after = fs::read_to_string(&results).expect("results");
    let rows = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON")["rows"].clone();
    assert_eq!(rows(&before), rows(&after));
}

/// Ctrl-C: the complete rows are in the results file.
#[test]
fn an_interrupted_run_keeps_its_rows() {
    if !worlds() {
        return;
    }
    let folder = folder();
    let results = path(&folder, "results.json");
    let partial = path(&folder, "results.json.partial");
    let mut command = bench(&[
        "pages",
        "--link",
        "umts-384",
        "--pages",
        "altavista",
        "--system",
        "direct",
        "--runs",
        "50",
        "--jobs",
        "1",
    ]);
    let mut child = command
        .arg("--json")
        .arg(&results)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("runs");
    until("the first row", || lines(&partial) >= 1);
    let interrupted = Command::new("kill")
        .arg("-INT")
        .arg(child.id().to_string())
        .status()
        .expect("kill runs");
    assert!(interrupted.success());
    let errors = BufReader::new(child.stderr.take().expect("piped"));
    let text: Vec<String> = errors.lines().map_while(Result::ok).collect();
    assert_eq!(child.wait().expect("ended").code(), Some(130), "{text:?}");
    assert!(text.iter().any(|line| line.contains("--resume")), "{text:?}");
    assert!(
        json(&results)["rows"]
            .as_array()
            .is_some_and(|rows| !rows.is_empty())
    );
}

/// Without root, in a user namespace, if the system allows that.
#[test]
fn worlds_can_be_built_without_root() {
    if !worlds() {
        return;
    }
    let nobody = [
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
    ];
    let allowed = Command::new("setpriv")
        .args(nobody)
        .args(["unshare", "--user", "--map-root-user", "true"])
        .output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: this system allows no user namespaces, or setpriv needs root");
        return;
    }
    let device = fs::metadata("/dev/net/tun").expect("there are worlds");
    if device.permissions().mode() & 0o006 != 0o006 {
        eprintln!("SKIPPED: /dev/net/tun is closed to other users on this system");
        return;
    }
    let folder = folder();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).expect("open to others");
    // Other users may have no access to the build folder.
    let program = path(&folder, "longhaul-bench");
    fs::copy(super::BENCH, &program).expect("copied");
    let results = path(&folder, "results.json");
    let mut command = Command::new("setpriv");
    command
        .args(nobody)
        .arg(&program)
        .args(["pages", "--link", "lte", "--pages", "altavista"]);
    command
        .args(["--system", "direct,squid", "--runs", "1", "--json"])
        .arg(&results);
    let output = run(command.current_dir("/"));
    assert!(output.status.success(), "{}", stderr_text(&output));
    assert_eq!(json(&results)["rows"].as_array().map(Vec::len), Some(2));
}
