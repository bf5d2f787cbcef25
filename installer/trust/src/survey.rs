//! Finds the browsers and desktops of a user, by their files. Nothing is changed.
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::{command::CommandRunner, keyed_lines, step::CommandLine};

/// Directories of a user and of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The user's home.
    pub home: PathBuf,
    /// `$XDG_CONFIG_HOME`
    pub config: PathBuf,
    /// `$XDG_DATA_HOME`
    pub data: PathBuf,
    /// The system's root; other than `/` only in tests.
    pub root: PathBuf,
}

impl Places {
    /// The default directories of a home.
    pub fn of_home(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            config: home.join(".config"),
            data: home.join(".local/share"),
            root: PathBuf::from("/"),
        }
    }

    /// A path of the system, below the root.
    pub fn system(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// True if the root is the system's own, so that commands act on this machine.
    pub fn is_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }
}

/// The findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// NSS databases that Chromium and its relatives use; they need not exist yet.
    pub chromium_databases: Vec<PathBuf>,
    /// Profiles of Firefox.
    pub firefox_profiles: Vec<PathBuf>,
    /// True if Firefox is installed.
    pub has_firefox: bool,
    /// True if GNOME's proxy settings exist and can be changed.
    pub has_gnome: bool,
    /// True if the user has settings of KDE.
    pub has_kde: bool,
    /// True if systemd runs services of the user.
    pub has_user_services: bool,
    /// The unit of the agent's user service that a package has installed.
    pub packaged_unit: Option<String>,
    /// Directories of Chromium's managed policies.
    pub chromium_policies: Vec<PathBuf>,
    /// Homes of all users.
    pub homes: Vec<PathBuf>,
}

impl Survey {
    /// Looks at the machine. `has_session_bus`: the user has a D-Bus session, which GNOME's settings need.
    pub fn of(places: &Places, has_session_bus: bool, runner: &dyn CommandRunner) -> Self {
        let succeeds = |command: CommandLine| {
            places.is_this_machine() && runner.run(&command).is_ok_and(|result| result.is_success)
        };
        Self {
            chromium_databases: chromium_databases(places),
            firefox_profiles: firefox_profiles(&places.home),
            has_firefox: installed(places, &["firefox", "firefox-esr"]),
            has_gnome: has_session_bus
                && succeeds(CommandLine::new(
                    "gsettings",
                    ["list-keys", "org.gnome.system.proxy"],
                )),
            has_kde: ["kioslaverc", "kdeglobals"]
                .iter()
                .any(|name| places.config.join(name).exists()),
            has_user_services: succeeds(CommandLine::new("systemctl", ["--user", "show-environment"])),
            packaged_unit: fs::read_to_string(places.system(PACKAGED_UNIT)).ok(),
            chromium_policies: chromium_policies(places),
            homes: homes(places),
        }
    }
}

/// Where packages install the agent's user service.
const PACKAGED_UNIT: &str = "/usr/lib/systemd/user/longhaul-agent.service";

/// Programs that use the same NSS database of the user.
const CHROMIUM: &[&str] = &[
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "brave-browser",
    "microsoft-edge",
    "vivaldi",
];

/// Chromium's rule: an existing `.pki` wins. It is never created, because it would take Chromium away from a
/// database that exists in the other place.
fn chromium_databases(places: &Places) -> Vec<PathBuf> {
    let in_home = |home: &Path, data: &Path| {
        let old = home.join(".pki/nssdb");
        if old.exists() { old } else { data.join("pki/nssdb") }
    };
    let own = in_home(&places.home, &places.data);
    let profile = [
        "chromium",
        "google-chrome",
        "BraveSoftware",
        "microsoft-edge",
        "vivaldi",
    ];
    let is_used = own.exists()
        || installed(places, CHROMIUM)
        || profile.iter().any(|name| places.config.join(name).exists());
    let snap = places.home.join("snap/chromium/current");
    let flatpak = places.home.join(".var/app/org.chromium.Chromium");
    let boxed = [
        in_home(&snap, &snap.join(".local/share")),
        in_home(&flatpak, &flatpak.join("data")),
    ];
    let mut found: Vec<PathBuf> = is_used.then_some(own).into_iter().collect();
    found.extend(boxed.into_iter().filter(|database| database.exists()));
    found
}

/// The profiles of a user's Firefox: those that `profiles.ini` names, and directories with a database.
pub(crate) fn firefox_profiles(home: &Path) -> Vec<PathBuf> {
    let roots = [
        ".mozilla/firefox",
        ".config/mozilla/firefox",
        "snap/firefox/common/.mozilla/firefox",
        ".var/app/org.mozilla.firefox/.mozilla/firefox",
        ".var/app/org.mozilla.firefox/config/mozilla/firefox",
    ];
    let mut found = BTreeSet::new();
    for root in roots.map(|root| home.join(root)) {
        let text = fs::read_to_string(root.join("profiles.ini")).unwrap_or_default();
        let named = (0..MAX_PROFILES)
            .map_while(|number| keyed_lines::value(&text, &format!("Profile{number}"), "Path"));
        found.extend(named.map(|path| root.join(path)));
        let entries = fs::read_dir(&root)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        found.extend(entries.filter(|path| path.join("cert9.db").exists() || path.join("prefs.js").exists()));
    }
    // A link could lead root into files of somebody else.
    let is_directory = |path: &PathBuf| path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    found.into_iter().filter(is_directory).collect()
}

/// More profiles are not looked for.
const MAX_PROFILES: u32 = 64;

fn chromium_policies(places: &Places) -> Vec<PathBuf> {
    let chrome = ["/opt/google/chrome", "/etc/opt/chrome"]
        .iter()
        .any(|path| places.system(path).exists());
    let mut found = vec![places.system("/etc/chromium/policies/managed")];
    found.extend(chrome.then(|| places.system("/etc/opt/chrome/policies/managed")));
    found
}

fn homes(places: &Places) -> Vec<PathBuf> {
    let entries = fs::read_dir(places.system("/home"))
        .into_iter()
        .flatten()
        .flatten();
    let mut homes: BTreeSet<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    homes.extend([places.system("/root"), places.home.clone()]);
    homes.into_iter().collect()
}

fn installed(places: &Places, programs: &[&str]) -> bool {
    let folders = ["/usr/bin", "/usr/local/bin", "/snap/bin"];
    let exists = |program: &&str| {
        folders
            .iter()
            .any(|folder| places.system(folder).join(program).exists())
    };
    programs.iter().any(exists)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(home: &Path) -> Places {
        Places {
            root: home.join("root"),
            ..Places::of_home(home)
        }
    }

    #[test]
    fn the_database_that_chromium_uses() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let places = places(home);
        assert!(chromium_databases(&places).is_empty(), "no Chromium");
        fs::create_dir_all(home.join(".config/chromium")).unwrap();
        assert_eq!(chromium_databases(&places), [home.join(".local/share/pki/nssdb")]);
        fs::create_dir_all(home.join(".pki/nssdb")).unwrap();
        let snap = home.join("snap/chromium/current/.local/share/pki/nssdb");
        let flatpak = home.join(".var/app/org.chromium.Chromium/.pki/nssdb");
        fs::create_dir_all(&snap).unwrap();
        fs::create_dir_all(&flatpak).unwrap();
        assert_eq!(
            chromium_databases(&places),
            [home.join(".pki/nssdb"), snap, flatpak]
        );
    }

    #[test]
    fn the_profiles_of_firefox() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join(".mozilla/firefox");
        for profile in ["a.default", "new", "with database", "Crash Reports"] {
            fs::create_dir_all(root.join(profile)).unwrap();
        }
        fs::write(root.join("with database/cert9.db"), "").unwrap();
        let absolute = home.path().join("elsewhere");
        fs::create_dir(&absolute).unwrap();
        let ini = format!(
            "[General]\nStartWithLastProfile=1\n\n[Profile0]\nName=x\nIsRelative=1\nPath=a.default\n\
             [Profile1]\nPath=gone\n[Profile2]\nIsRelative=0\nPath={}\n",
            absolute.display()
        );
        fs::write(root.join("profiles.ini"), ini).unwrap();
        let expected = [root.join("a.default"), root.join("with database"), absolute];
        assert_eq!(firefox_profiles(home.path()), expected);
    }
}
