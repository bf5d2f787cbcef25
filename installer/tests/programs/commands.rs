//! The command `longhaul` from a user's view: output, files and exit status.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use longhaul_types::{Invite, PublicKey, SecretKey};

fn longhaul(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    // The home directory contains no program of Longhaul, and no user settings apply.
    command
        .env_clear()
        .env("HOME", home)
        .env("LONGHAUL_BIN_DIR", home)
        .args(arguments);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_key_pair_is_made_and_kept() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("device.key");
    let file_text = file.to_str().unwrap();
    let made = longhaul(home.path(), &["keygen", "--out", file_text]);
    assert!(made.status.success());
    let public: PublicKey = text(&made.stdout)
        .trim()
        .strip_prefix("public key: ")
        .unwrap()
        .parse()
        .unwrap();
    let secret: SecretKey = fs::read_to_string(&file).unwrap().parse().unwrap();
    assert_eq!(secret.public(), public);

    let again = longhaul(home.path(), &["keygen", "--out", file_text]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("never overwritten"));

    let shown = text(&longhaul(home.path(), &["keygen"]).stdout);
    let line = |label: &str| {
        shown
            .lines()
            .find_map(|line| line.strip_prefix(label))
            .unwrap()
            .to_owned()
    };
    let secret: SecretKey = line("secret key: ").parse().unwrap();
    assert_eq!(secret.public(), line("public key: ").parse().unwrap());
}

#[test]
fn enrolment_goes_where_the_agent_looks() {
    let home = tempfile::tempdir().unwrap();
    let invite = |gateway: u8| {
        let gateway = SecretKey::from_bytes([gateway; 32]).public();
        let device = SecretKey::from_bytes([7; 32]);
        Invite::new("gw.test:4433".to_owned(), gateway, device, [3; 32])
            .unwrap()
            .to_line()
    };
    let done = longhaul(home.path(), &["enroll", &invite(1)]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    assert!(
        said.contains("gw.test:4433") && said.contains("longhaul-agent run"),
        "{said}"
    );
    let secret = SecretKey::from_bytes([7; 32]).to_secret_text();
    assert!(!said.contains(&secret), "the device's secret must not be printed");
    let kept = fs::read_to_string(home.path().join(".local/state/longhaul-agent/invite")).unwrap();
    assert_eq!(kept.trim(), invite(1));

    let other = longhaul(home.path(), &["enroll", &invite(2)]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("`longhaul enroll --replace LINE`"));
    assert!(
        longhaul(home.path(), &["enroll", "--replace", &invite(2)])
            .status
            .success()
    );

    let damaged = longhaul(home.path(), &["enroll", &invite(1)[..40]]);
    assert_eq!(damaged.status.code(), Some(2));
    assert!(text(&damaged.stderr).contains("damaged"));
}

#[test]
fn enrolment_respects_the_agents_configuration() {
    let home = tempfile::tempdir().unwrap();
    let gateway = SecretKey::from_bytes([1; 32]).public();
    let device = SecretKey::from_bytes([7; 32]);
    let invite = Invite::new("gw.test:4433".to_owned(), gateway, device, [3; 32])
        .unwrap()
        .to_line();
    let state = home.path().join("elsewhere");
    let config = home.path().join(".config/longhaul/agent.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, format!("state-dir = '{}'\n", state.display())).unwrap();
    let done = longhaul(home.path(), &["enroll", &invite]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(state.join("invite").exists() && !home.path().join(".local").exists());
    let given = home.path().join("given");
    let given_text = given.to_str().unwrap();
    assert!(
        longhaul(home.path(), &["enroll", "--state-dir", given_text, &invite])
            .status
            .success()
    );
    assert!(given.join("invite").exists());
    fs::write(&config, "state-dir = 7\n").unwrap();
    let wrong = longhaul(home.path(), &["enroll", &invite]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        text(&wrong.stderr).contains("agent.toml"),
        "{}",
        text(&wrong.stderr)
    );
    // `up` looks in the same place.
    fs::write(&config, format!("state-dir = '{}'\n", state.display())).unwrap();
    let plan = longhaul(home.path(), &["up", "--dry-run", "--no-browser", &invite]);
    let said = text(&plan.stdout);
    assert!(
        said.contains(state.join("invite").to_str().unwrap()),
        "{said} {}",
        text(&plan.stderr)
    );
}

#[test]
fn mistakes_are_explained() {
    let home = tempfile::tempdir().unwrap();
    let missing = longhaul(home.path(), &["demo", "--once", "--json"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(missing.stdout.is_empty(), "nothing but the result goes to stdout");
    assert!(text(&missing.stderr).contains("`longhaul-gateway` is not in"));
    let status = longhaul(home.path(), &["status"]);
    assert_eq!(status.status.code(), Some(1));
    assert!(text(&status.stdout).contains("longhaul up LINE"), "{status:?}");
    let doctor = longhaul(home.path(), &["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    assert!(text(&doctor.stdout).contains("-> longhaul up LINE"), "{doctor:?}");

    // Empty files, so that the next error is reported; they are never run.
    for program in ["longhaul-gateway", "longhaul-agent"] {
        fs::write(home.path().join(program), "").unwrap();
    }
    let bad = home.path().join("bad.warc");
    fs::write(
        &bad,
        "WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 10\r\n\r\nabc",
    )
    .unwrap();
    let bad = bad.to_str().unwrap();
    for (arguments, code, words) in [
        (vec!["demo", "--once", "example.org"], 2, "http://example.org/"),
        (vec!["demo", "--resolve", "a.test"], 2, "NAME=ADDR"),
        (vec!["demo", "--link", "pigeon"], 2, "gprs-3+1"),
        (
            vec!["demo", "--once", "--warc", "/none.warc"],
            1,
            "/none.warc: cannot open it",
        ),
        (
            vec!["demo", "--once", "--warc", bad],
            1,
            "record 1: the file ends within it",
        ),
        (
            vec!["demo", "--once", "--extra-ca", bad],
            1,
            "holds no certificate",
        ),
    ] {
        let run = longhaul(home.path(), &arguments);
        assert_eq!(run.status.code(), Some(code), "{arguments:?}");
        let said = text(&run.stderr);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}
