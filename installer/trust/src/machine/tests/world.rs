//! A machine of its own in a temporary folder, and the death of the program at any of its writes.
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use super::wishes;
use crate::{
    command::{CommandResult, SystemCommands},
    disk::KILLED,
    machine::*,
    nss,
    plan::{Browsers, Wishes},
    plan_linux,
    step::{Change, CommandLine},
    survey::{Places, Survey},
};

pub(super) const AUTHORITY: &str = include_str!("../authority.pem");

/// True for the error that stands for the death of the process.
pub(in crate::machine) fn is_death(error: &ChangeError) -> bool {
    matches!(error, ChangeError::File { source, .. } if source.to_string() == KILLED)
}

/// Settings of GNOME and the user's service; `certutil` is the real one.
#[derive(Debug, Default)]
pub(super) struct FakeSystem {
    settings: RefCell<BTreeMap<String, String>>,
    is_active: Cell<bool>,
}

impl CommandRunner for FakeSystem {
    fn run(&self, command: &CommandLine) -> io::Result<CommandResult> {
        let arguments: Vec<&str> = command.arguments.iter().map(String::as_str).collect();
        let mut result = CommandResult {
            is_success: true,
            ..CommandResult::default()
        };
        match (command.program.as_str(), arguments.as_slice()) {
            ("certutil", _) => return SystemCommands.run(command),
            ("gsettings", ["get", _, key]) => {
                let settings = self.settings.borrow();
                let default = if *key == "mode" { "none" } else { "" };
                result.stdout = format!("'{}'\n", settings.get(*key).map_or(default, String::as_str));
            }
            ("gsettings", ["set", _, key, value]) => {
                self.settings
                    .borrow_mut()
                    .insert((*key).to_owned(), (*value).to_owned());
            }
            ("gsettings", ["reset", _, key]) => drop(self.settings.borrow_mut().remove(*key)),
            ("systemctl", ["--user", "enable", ..]) => self.is_active.set(true),
            ("systemctl", ["--user", "disable", ..]) => self.is_active.set(false),
            ("systemctl", ["--user", "is-active", ..]) => result.is_success = self.is_active.get(),
            ("systemctl", _) => {}
            _ => return Err(io::ErrorKind::NotFound.into()),
        }
        Ok(result)
    }
}

/// True if `certutil` is installed; otherwise the databases are left out, which the log says.
pub(super) fn has_certutil() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let found = SystemCommands
            .run(&CommandLine::new("certutil", ["--version"]))
            .is_ok();
        if !found {
            // Not `eprintln`, which the test harness captures.
            writeln!(
                io::stderr(),
                "SKIPPED: the tests of NSS databases need certutil (package libnss3-tools)"
            )
            .unwrap();
        }
        found
    })
}

/// A home with files of the user, and a system's root.
pub(super) struct World {
    _directory: tempfile::TempDir,
    pub(super) tree: PathBuf,
    pub(super) state: PathBuf,
    pub(super) system: FakeSystem,
    pub(super) steps: Vec<Step>,
}

impl World {
    /// `has_files`: the files that are to be changed exist already.
    pub(super) fn new(has_files: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        let home = tree.join("home/ann");
        let profile = home.join(".mozilla/firefox/x.default");
        fs::create_dir_all(&profile).unwrap();
        let system = FakeSystem::default();
        if has_files {
            let files = [
                (profile.join("user.js"), "user_pref(\"a\", 1);"),
                (
                    profile.join("prefs.js"),
                    "user_pref(\"network.proxy.type\", 5);\n",
                ),
                (
                    home.join(".config/longhaul/agent.toml"),
                    "# mine\n[https]\naccelerate = \"off\"\n",
                ),
                (home.join(".config/kioslaverc"), "[Proxy Settings]\nProxyType=1\n"),
                (
                    tree.join("root/etc/firefox/policies/policies.json"),
                    "{\"policies\": {\"Proxy\": {\"Mode\": \"none\"}}}",
                ),
            ];
            for (path, text) in files {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            system
                .settings
                .borrow_mut()
                .insert("mode".to_owned(), "manual".to_owned());
        }
        let mut survey = Survey {
            firefox_profiles: vec![profile.clone()],
            has_gnome: true,
            has_kde: true,
            chromium_policies: vec![tree.join("root/etc/chromium/policies/managed")],
            homes: vec![home.clone()],
            ..Survey::default()
        };
        let has_certutil = has_certutil();
        if has_certutil {
            survey.chromium_databases = vec![home.join(".local/share/pki/nssdb")];
            for name in nss::FILES.iter().filter(|_| has_files) {
                fs::copy(template().join(name), profile.join(name)).unwrap();
            }
        }
        let places = Places {
            root: tree.join("root"),
            ..Places::of_home(&home)
        };
        let mut steps = plan_linux::steps(&places, &survey, &wishes(&home, Browsers::Own));
        let all_users = Wishes {
            accelerate: None,
            service: None,
            system_store: false,
            shells: false,
            ..wishes(&home, Browsers::AllUsers)
        };
        steps.extend(plan_linux::steps(&places, &survey, &all_users));
        if !has_certutil {
            steps.retain(|step| {
                !matches!(
                    step.change,
                    Change::NssCertificate { .. } | Change::FirefoxPolicies { .. }
                )
            });
        }
        let state = directory.path().join("deep/state");
        Self {
            _directory: directory,
            tree,
            state,
            system,
            steps,
        }
    }

    pub(super) fn machine(&self) -> Machine<'_> {
        Machine::open(&self.state, &self.system).unwrap()
    }

    /// A machine that dies after so many operations.
    fn mortal(&self, operations: u32) -> Machine<'_> {
        let mut machine = self.machine();
        machine.disk.left = Some(Cell::new(operations));
        machine
    }

    pub(super) fn undo_all(machine: &mut Machine<'_>) -> Result<(), ChangeError> {
        for step in machine.journalled().into_iter().rev() {
            machine.undo(step.number)?;
        }
        Ok(())
    }

    /// Names, modes and bytes of all files, and the settings.
    pub(super) fn look(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.tree.clone()];
        while let Some(path) = open.pop() {
            let metadata = fs::metadata(&path).unwrap();
            let bytes = if metadata.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            found.insert(path, (disk::permissions::mode(&metadata), bytes));
        }
        for (key, value) in self.system.settings.borrow().iter() {
            found.insert(key.into(), (0, value.clone().into_bytes()));
        }
        found.insert("service".into(), (self.system.is_active.get().into(), Vec::new()));
        found
    }

    /// Applies steps until the process dies, then undoes them, dying once more on the way.
    pub(super) fn die_and_undo(&self, steps: &[&Step], (apply, undo): (u32, u32)) -> bool {
        let before = self.look();
        let mut machine = self.mortal(apply);
        let died = steps.iter().any(|step| match machine.apply(step) {
            Ok(_) => false,
            Err(error) if is_death(&error) => true,
            Err(error) => panic!("{}: {error}", step.what),
        });
        if let Err(error) = Self::undo_all(&mut self.mortal(undo)) {
            assert!(is_death(&error), "{error}");
        }
        Self::undo_all(&mut self.machine()).unwrap();
        self.machine().settle().unwrap();
        let (mut after, mut before) = (self.look(), before);
        after.retain(|path, seen| before.remove(path).as_ref() != Some(seen));
        let names = |map: &BTreeMap<PathBuf, (u32, Vec<u8>)>| map.keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            (names(&before), names(&after)),
            (vec![], vec![]),
            "lost, and new or changed"
        );
        assert!(self.machine().journalled().is_empty());
        let work = ["work", "changes"].map(|name| self.state.join(name).exists());
        assert_eq!(work, [false; 2], "no copies of the user's files stay");
        died
    }
}

/// An empty database, made once.
fn template() -> &'static Path {
    static DATABASE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let directory = DATABASE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let database = format!("sql:{}", directory.path().display());
        let made = SystemCommands.run(&CommandLine::new(
            "certutil",
            ["-N", "-d", &database, "--empty-password"],
        ));
        assert!(made.unwrap().is_success);
        directory
    });
    directory.path()
}
