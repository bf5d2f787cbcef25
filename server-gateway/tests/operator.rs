//! The operator's commands beside a running gateway and without one, as root and as other users.
#![cfg(unix)]
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and says why it was skipped"
)]

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        net::UnixStream,
        process::CommandExt as _,
    },
    path::PathBuf,
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use longhaul_types::Invite;

/// Users without an entry in the machine's list of users: the gateway's, and a stranger.
const SERVICE: u32 = 54_321;
const STRANGER: u32 = 54_322;

/// A state directory in a folder that every user can enter.
struct Home {
    folder: tempfile::TempDir,
    state: PathBuf,
}

impl Home {
    /// The directory belongs to `user`.
    fn of(user: Option<u32>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
        if let Some(user) = user {
            chown(&state, Some(user), Some(user)).unwrap();
        }
        Self { folder, state }
    }

    fn command(&self, user: Option<u32>, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul-gateway"));
        command
            .env_clear()
            .env("LONGHAUL_STATE_DIR", &self.state)
            .env("LONGHAUL_CONFIG", "/dev/null")
            .current_dir(self.folder.path())
            .args(words);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(None, words).output().unwrap()
    }

    /// Standard output of a command of this test's own user.
    fn text(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn list(&self) -> serde_json::Value {
        serde_json::from_str(&self.text(&["device", "list", "--json"])).unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.state.join("admin.sock")
    }

    /// Owner and mode of each file.
    fn owners(&self) -> BTreeSet<(String, u32, u32)> {
        let entries = fs::read_dir(&self.state).unwrap().map(|entry| entry.unwrap());
        entries
            .map(|entry| {
                let found = entry.metadata().unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, found.uid(), found.mode() & 0o777)
            })
            .collect()
    }
}

/// A running gateway; killed when dropped.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    fn start(home: &Home, user: Option<u32>) -> Self {
        Self::start_with(home, user, &[])
    }

    fn start_with(home: &Home, user: Option<u32>, more: &[&str]) -> Self {
        let words: Vec<&str> = ["run", "--listen", "127.0.0.1:0"]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        let mut child = home
            .command(user, &words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        if !line.starts_with("ready ") {
            let mut log = String::new();
            child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
            panic!("not ready: {line}{log}");
        }
        Self { child, out }
    }

    /// Ends the gateway in order, and returns its log.
    fn end(mut self) -> String {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(killed.success());
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        let mut log = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        assert!(self.child.wait().unwrap().success(), "{log}");
        log
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

const INVITE: [&str; 4] = ["invite", "laptop", "--address", "gw.test:4433"];

/// True if this test can start the program as other users.
fn can_change_user() -> bool {
    let home = Home::of(None);
    let started = home.command(Some(SERVICE), &["--version"]).output();
    let can = started.is_ok_and(|output| output.status.success());
    if !can {
        println!("SKIPPED: needs root, and a build that other users can execute");
    }
    can
}

fn failure(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    assert!(
        output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn root_changes_the_devices_of_a_running_gateway_of_another_user() {
    if !can_change_user() {
        return;
    }
    let home = Home::of(Some(SERVICE));
    let running = Running::start(&home, Some(SERVICE));
    let line = home.text(&INVITE);
    assert_eq!(line.lines().count(), 1);
    assert!(line.parse::<Invite>().is_ok(), "{line}");
    let list = home.list();
    assert_eq!(list["running"], true, "{list:#}");
    let device = &list["devices"][0];
    assert_eq!(
        (&device["name"], &device["status"]),
        (&"laptop".into(), &"invited".into())
    );
    assert_eq!(
        (&device["bytes_up"], &device["last_seen"]),
        (&0.into(), &serde_json::Value::Null)
    );
    assert!(
        home.text(&["device", "rename", "laptop", "phone"])
            .starts_with("renamed laptop to phone (")
    );
    assert!(home.text(&["device", "list"]).contains("phone"));
    assert!(
        home.text(&["device", "remove", "phone"])
            .starts_with("revoked phone (")
    );
    let again = failure(&home.run(&["device", "revoke", "phone"]));
    assert!(
        again.contains("no admitted device has the name, id or key `phone`"),
        "{again}"
    );
    let owners = home.owners();
    assert!(owners.iter().all(|(_, owner, _)| *owner == SERVICE), "{owners:?}");
    assert!(
        owners.contains(&("admin.sock".to_owned(), SERVICE, 0o600)),
        "{owners:?}"
    );
    let log = running.end();
    assert!(log.contains("the operator changed the list of devices"), "{log}");
    assert!(!home.socket().exists(), "the socket is removed at the end");
}

#[test]
fn files_that_root_changes_keep_their_owner() {
    if !can_change_user() {
        return;
    }
    let home = Home::of(Some(SERVICE));
    home.text(&INVITE);
    home.text(&["device", "list"]);
    let owners = home.owners();
    assert!(
        owners
            .iter()
            .all(|(_, owner, mode)| (*owner, *mode) == (SERVICE, 0o600)),
        "{owners:?}"
    );
    // The operator gave the list to a group, and root broke its owner earlier.
    let list = home.state.join("devices.toml");
    fs::set_permissions(&list, fs::Permissions::from_mode(0o640)).unwrap();
    home.text(&["device", "rename", "laptop", "phone"]);
    assert_eq!(fs::metadata(&list).unwrap().mode() & 0o777, 0o640);
    chown(&list, Some(0), Some(0)).unwrap();
    home.text(&["device", "rename", "phone", "tablet"]);
    assert_eq!(
        fs::metadata(&list).unwrap().uid(),
        SERVICE,
        "a file of root is repaired"
    );
    let running = Running::start(&home, Some(SERVICE));
    assert_eq!(home.list()["devices"][0]["name"], "tablet");
    let log = running.end();
    assert!(!log.contains("ERROR") && !log.contains("cannot be"), "{log}");
}

#[test]
fn other_users_are_refused() {
    if !can_change_user() {
        return;
    }
    let home = Home::of(Some(SERVICE));
    let running = Running::start(&home, Some(SERVICE));
    let denied = failure(&home.command(Some(STRANGER), &INVITE).output().unwrap());
    assert!(
        denied.contains("gateway.lock") && denied.contains("must belong to the user"),
        "{denied}"
    );
    // Even if the files admit the stranger, the check of the peer does not.
    fs::set_permissions(&home.state, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(home.state.join("gateway.lock"), fs::Permissions::from_mode(0o644)).unwrap();
    let denied = failure(&home.command(Some(STRANGER), &INVITE).output().unwrap());
    assert!(
        denied.contains("only from root and from the user who runs it"),
        "{denied}"
    );
    fs::set_permissions(home.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    let denied = failure(&home.command(Some(STRANGER), &INVITE).output().unwrap());
    assert!(denied.contains("does not take orders from this user"), "{denied}");
    let own = home
        .command(Some(SERVICE), &["device", "list", "--json"])
        .output()
        .unwrap();
    let own: serde_json::Value = serde_json::from_slice(&own.stdout).unwrap();
    assert_eq!(
        own["devices"],
        serde_json::json!([]),
        "no stranger has added a device"
    );
    let log = running.end();
    assert!(
        log.contains("another user tried to use the admin socket"),
        "{log}"
    );
}

#[test]
fn a_hundred_invites_at_once_all_count() {
    let home = Home::of(None);
    let running = Running::start(&home, None);
    let commands: Vec<Child> = (0..100)
        .map(|number| {
            let name = format!("device {number}");
            home.command(None, &["invite", &name, "--address", "gw.test:4433"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let lines: BTreeSet<Vec<u8>> = commands
        .into_iter()
        .map(|command| {
            let output = command.wait_with_output().unwrap();
            assert!(output.status.success());
            output.stdout
        })
        .collect();
    assert_eq!(lines.len(), 100, "each invite is its own");
    assert_eq!(home.list()["devices"].as_array().unwrap().len(), 100);
    drop(running);
    assert_eq!(
        home.list()["devices"].as_array().unwrap().len(),
        100,
        "all are on disk"
    );
}

#[test]
fn commands_that_are_killed_leave_a_readable_list() {
    let home = Home::of(None);
    let mut interrupted = 0_u32;
    for round in 0..30_u32 {
        let name = format!("device {round}");
        let mut command = home
            .command(None, &["invite", &name, "--address", "gw.test:4433"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Killed while it writes: its temporary file is there. A command that is faster ends by itself.
        while command.try_wait().unwrap().is_none() && temporaries(&home).is_empty() {
            std::thread::yield_now();
        }
        command.kill().unwrap();
        interrupted += u32::from(!temporaries(&home).is_empty());
        command.wait().unwrap();
        let list = home.list();
        assert!(list["devices"].is_array(), "after {round} killed commands");
    }
    println!("{interrupted} commands left a temporary file");
    home.text(&INVITE);
    let running = Running::start(&home, None);
    let left = temporaries(&home);
    assert!(
        left.is_empty(),
        "the gateway removes what killed commands left: {left:?}"
    );
    assert_eq!(home.list()["running"], true);
    drop(running);
}

/// Temporary files of the list of devices.
fn temporaries(home: &Home) -> Vec<String> {
    fs::read_dir(&home.state)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".devices.toml."))
        .collect()
}

#[test]
fn commands_work_after_a_gateway_was_killed() {
    let home = Home::of(None);
    let mut running = Running::start(&home, None);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    assert!(home.socket().exists(), "a killed gateway leaves its socket");
    home.text(&INVITE);
    assert_eq!(home.list()["running"], false);
    let next = Running::start(&home, None);
    assert_eq!(home.list()["running"], true);
    drop(next);
}

#[test]
fn a_second_gateway_on_the_same_directory_is_refused() {
    let home = Home::of(None);
    let running = Running::start(&home, None);
    let refused = failure(&home.run(&["run", "--listen", "127.0.0.1:0"]));
    assert!(
        refused.contains("another gateway uses the state directory"),
        "{refused}"
    );
    assert_eq!(home.list()["running"], true, "the first one is not disturbed");
    drop(running);
}

#[test]
fn the_socket_is_found_wherever_it_is_and_can_be_off() {
    let home = Home::of(None);
    let elsewhere = home.folder.path().join("run.sock");
    let running = Running::start_with(&home, None, &["--admin-socket", elsewhere.to_str().unwrap()]);
    assert!(elsewhere.exists() && !home.socket().exists());
    assert_eq!(home.list()["running"], true);
    running.end();
    let running = Running::start_with(&home, None, &["--admin-socket", "off"]);
    assert_eq!(home.list()["running"], false);
    home.text(&INVITE);
    running.end();
    let taken = home.folder.path().join("file");
    fs::write(&taken, "").unwrap();
    let refused = failure(&home.run(&[
        "run",
        "--listen",
        "127.0.0.1:0",
        "--admin-socket",
        taken.to_str().unwrap(),
    ]));
    assert!(refused.contains("is no socket"), "{refused}");
    let long = home.folder.path().join("x".repeat(120));
    let running = Running::start_with(&home, None, &["--admin-socket", long.to_str().unwrap()]);
    home.text(&["device", "list"]);
    let log = running.end();
    assert!(log.contains("longer than the system permits"), "{log}");
}

#[test]
fn the_socket_answers_plain_http_and_has_limits() {
    let home = Home::of(None);
    let running = Running::start_with(&home, None, &["--public-address", "gw.test:4433"]);
    let ask = |request: &str| {
        let mut stream = UnixStream::connect(home.socket()).unwrap();
        // The gateway may answer and close before it has read everything.
        let _broken = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _broken = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let post = |path: &str, body: &str| {
        let length = body.len();
        ask(&format!(
            "POST {path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    };
    let made = post("/v1/invite", "{\"name\": \"a\"}");
    assert!(
        made.starts_with("HTTP/1.1 200 ") && made.contains("\"address\":\"gw.test:4433\""),
        "{made}"
    );
    let taken = post("/v1/invite", "{\"name\": \"a\"}");
    assert!(
        taken.starts_with("HTTP/1.1 409 ") && taken.contains("admitted already"),
        "{taken}"
    );
    for malformed in [
        "",
        "{}",
        "{\"name\": 1}",
        "{\"name\": \"b\", \"adress\": \"x\"}",
        "\u{0}",
    ] {
        let answer = post("/v1/invite", malformed);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{malformed}: {answer}");
    }
    let large = post("/v1/device/remove", &"x".repeat(64 * 1024));
    assert!(!large.starts_with("HTTP/1.1 200 "), "{large}");
    let head = ask(&format!(
        "GET /v1/devices HTTP/1.1\r\nHost: gateway\r\nX: {}\r\n\r\n",
        "x".repeat(64 * 1024)
    ));
    assert!(!head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(
        ask("GET /v2/devices HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 404 ")
    );
    assert_eq!(home.list()["devices"].as_array().unwrap().len(), 1);
    drop(running);
}

#[test]
fn an_invite_has_an_address_an_end_and_a_form() {
    let home = Home::of(None);
    let nowhere = failure(&home.run(&["invite", "a"]));
    assert!(
        nowhere.contains("public-address") && nowhere.contains("--address"),
        "{nowhere}"
    );
    let long = failure(&home.run(&["invite", "a", "--address", "gw.test:1", "--expires", "366d"]));
    assert!(long.contains("at most 365d"), "{long}");
    assert!(
        !home.run(&["invite", "--address", "gw.test:1"]).status.success(),
        "a name is needed"
    );
    assert_eq!(
        home.list()["devices"],
        serde_json::json!([]),
        "a mistake admits nobody"
    );
    let words = [
        "invite",
        "a",
        "--public-address",
        "gw.test:4433",
        "--once",
        "--expires",
        "2h",
        "--json",
    ];
    let json: serde_json::Value = serde_json::from_str(&home.text(&words)).unwrap();
    assert_eq!(
        (&json["name"], &json["address"], &json["one_time"]),
        (&"a".into(), &"gw.test:4433".into(), &true.into())
    );
    let invite: Invite = json["invite"].as_str().unwrap().parse().unwrap();
    assert_eq!(json["key"], invite.device().public().to_string());
    let listed = &home.list()["devices"][0];
    assert_eq!(
        (&listed["invite_expires"], &listed["one_time"]),
        (&json["expires"], &true.into())
    );
    let replaced = home.run(&["invite", "a", "--address", "gw.test:1", "--replace", "--qr"]);
    let text = String::from_utf8(replaced.stdout).unwrap();
    assert!(
        text.lines().count() > 20 && text.contains('▀'),
        "a code for the camera: {text}"
    );
    let note = String::from_utf8(replaced.stderr).unwrap();
    assert!(
        note.contains(json["id"].as_str().unwrap()) && note.contains("valid until"),
        "{note}"
    );
    let states: Vec<_> = home.list()["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| device["status"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(states, ["revoked", "invited"]);
}

/// Lists of earlier versions have neither `invite-expires` nor `one-time`.
#[test]
fn devices_of_an_earlier_list_do_not_expire() {
    let home = Home::of(None);
    let invite: Invite = home.text(&INVITE).parse().unwrap();
    let old = format!(
        "[[device]]\nname = \"old\"\nkey = \"{}\"\nadded = \"Fri, 02 Jan 1970 00:00:00 GMT\"\n",
        invite.device().public()
    );
    fs::write(home.state.join("devices.toml"), old).unwrap();
    let listed = &home.list()["devices"][0];
    assert_eq!(
        (&listed["status"], &listed["added"]),
        (&"admitted".into(), &"1970-01-02T00:00:00Z".into())
    );
}
