//! A gateway with its own state directory, and the operator's commands for it.
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::PathBuf,
    process::{Child, ChildStdout, Command, Output, Stdio},
};

/// A state directory in a folder that every user can enter.
pub(super) struct Home {
    pub(super) folder: tempfile::TempDir,
    pub(super) state: PathBuf,
}

impl Home {
    /// The directory belongs to `user`.
    pub(super) fn of(user: Option<u32>) -> Self {
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

    pub(super) fn command(&self, user: Option<u32>, words: &[&str]) -> Command {
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

    pub(super) fn run(&self, words: &[&str]) -> Output {
        self.command(None, words).output().unwrap()
    }

    /// Standard output of a command of this test's own user.
    pub(super) fn text(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    pub(super) fn list(&self) -> serde_json::Value {
        serde_json::from_str(&self.text(&["device", "list", "--json"])).unwrap()
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.state.join("admin.sock")
    }

    /// Owner and mode of each file.
    pub(super) fn owners(&self) -> BTreeSet<(String, u32, u32)> {
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
pub(super) struct Running {
    pub(super) child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    pub(super) fn start(home: &Home, user: Option<u32>) -> Self {
        Self::start_with(home, user, &[])
    }

    pub(super) fn start_with(home: &Home, user: Option<u32>, more: &[&str]) -> Self {
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
    pub(super) fn end(mut self) -> String {
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
