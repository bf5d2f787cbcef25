//! A home and a system's root to switch Longhaul on in.
use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

const AUTHORITY: &str = include_str!("../../../trust/src/machine/authority.pem");

/// A home and a system's root, with the program `longhaul-agent` that only makes its certificate authority.
pub(super) struct Machine {
    pub(super) directory: tempfile::TempDir,
}

impl Machine {
    pub(super) fn new() -> Self {
        let machine = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        let agent = machine.path("bin/longhaul-agent");
        write(&machine.path("authority.pem"), AUTHORITY);
        let script = format!(
            "#!/bin/sh\n[ \"$1 $2 $3\" = \"ca export --state-dir\" ] || exit 9\n\
             cp '{0}' \"$4/ca.pem\" && echo key > \"$4/ca.key\" && cat '{0}'\n",
            machine.path("authority.pem").display()
        );
        write(&agent, &script);
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        for profile in ["one.default", "two"] {
            let folder = machine.path("home/.mozilla/firefox").join(profile);
            fs::create_dir_all(&folder).unwrap();
            make_database(&folder);
        }
        write(
            &machine.path("home/.mozilla/firefox/two/user.js"),
            "user_pref(\"a\", 1);",
        );
        write(
            &machine.path("home/.config/kioslaverc"),
            "[Proxy Settings]\nProxyType=0\n",
        );
        fs::create_dir_all(machine.path("home/.config/chromium")).unwrap();
        let policies = r#"{ "policies": { "DisableTelemetry": true, "Proxy": { "Mode": "system" } } }"#;
        write(&machine.path("root/etc/firefox/policies/policies.json"), policies);
        machine
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Output {
        self.run_by(&mut Command::new(env!("CARGO_BIN_EXE_longhaul")), arguments)
    }

    /// Runs a command of `longhaul` by a program that already has its first arguments.
    pub(super) fn run_by(&self, program: &mut Command, arguments: &[&str]) -> Output {
        let home = self.path("home");
        let root = self.path("root");
        let (command, rest) = arguments.split_first().unwrap();
        program
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/nonexistent")
            .env("LONGHAUL_BIN_DIR", self.path("bin"))
            .args([
                command,
                "--home",
                home.to_str().unwrap(),
                "--root",
                root.to_str().unwrap(),
            ])
            .args(rest)
            .output()
            .unwrap()
    }

    /// Runs a command that has to succeed, and returns its line of JSON.
    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{arguments:?}: {stdout}{stderr}");
        assert_eq!(stdout.lines().count(), 1, "{stdout}");
        serde_json::from_str(&stdout).unwrap()
    }

    /// Names, modes and bytes of all files.
    pub(super) fn look(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.directory.path().to_owned()];
        while let Some(path) = open.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mut bytes = Vec::new();
            if metadata.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else {
                bytes = fs::read(&path).unwrap();
            }
            found.insert(path, (metadata.permissions().mode(), bytes));
        }
        found
    }

    pub(super) fn assert_unchanged(&self, before: &BTreeMap<PathBuf, (u32, Vec<u8>)>) {
        let after = self.look();
        let names = |map: &BTreeMap<PathBuf, _>| map.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&after), names(before));
        for (path, seen) in before {
            assert!(
                after.get(path) == Some(seen),
                "{} is not as before",
                path.display()
            );
        }
    }

    /// Kills a command as it enters the system call `call` for the `number`th time; false if it ended before.
    pub(super) fn is_killed(&self, (call, number): (&str, usize), arguments: &[&str]) -> bool {
        let mut strace = Command::new("strace");
        let inject = format!("inject={call}:signal=KILL:when={number}");
        strace.args([
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            &format!("trace={call}"),
            "-e",
            &inject,
        ]);
        let ended = self.run_by(strace.arg(env!("CARGO_BIN_EXE_longhaul")), arguments);
        let said = String::from_utf8_lossy(&ended.stderr);
        match ended.status.signal() {
            Some(9) => true,
            _ if ended.status.success() => false,
            _ => panic!("{arguments:?}, {call} {number}: {}: {said}", ended.status),
        }
    }

    pub(super) fn trusts(&self, database: &str) -> bool {
        let database = format!("sql:{}", self.path(database).display());
        let list = Command::new("certutil")
            .args(["-L", "-d", &database])
            .output()
            .unwrap();
        String::from_utf8_lossy(&list.stdout).contains("Longhaul on this device")
    }
}

pub(super) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(super) fn make_database(folder: &Path) {
    let database = format!("sql:{}", folder.display());
    let made = Command::new("certutil")
        .args(["-N", "-d", &database, "--empty-password"])
        .status();
    assert!(made.unwrap().success());
}
