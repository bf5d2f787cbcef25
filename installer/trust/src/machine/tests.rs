//! Every change is undone exactly, also after the process died at any write.
mod world;

use std::{cell::Cell, fs, path::Path};

use proptest::prelude::*;

use self::world::{AUTHORITY, World, has_certutil};
use super::*;
use crate::{
    command::SystemCommands,
    nss,
    plan::{Accelerate, Authority, Browsers, Wishes},
    step::{Change, CommandLine},
};

pub(super) use self::world::is_death;

fn wishes(home: &Path, browsers: Browsers) -> Wishes {
    Wishes {
        script: "http://127.0.0.1:3129/proxy.pac".to_owned(),
        proxy: "127.0.0.1:3128".to_owned(),
        authority: Some(Authority {
            certificate: AUTHORITY.to_owned(),
            file: home.join("ca.pem"),
        }),
        accelerate: Some(Accelerate::All),
        config: home.join(".config/longhaul/agent.toml"),
        browsers,
        system_store: true,
        shells: true,
        service: Some("[Unit]\n".to_owned()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_steps_are_undone_after_any_deaths(chosen: u16, has_files: bool, apply in 0_u32..400, undo in 0_u32..200) {
        let world = World::new(has_files);
        let steps = world.steps.iter().enumerate();
        let steps: Vec<&Step> = steps.filter(|(at, _)| chosen & (1 << at) != 0).map(|(_, step)| step).collect();
        world.die_and_undo(&steps, (apply, undo));
    }
}

#[test]
fn a_death_at_every_write_of_every_file() {
    for has_files in [false, true] {
        let world = World::new(has_files);
        let steps: Vec<&Step> = world.steps.iter().filter(|step| !uses_certutil(step)).collect();
        assert!(steps.len() > 8);
        let mut operations = 0;
        while world.die_and_undo(&steps, (operations, operations / 2)) {
            operations += 1;
        }
        assert!(operations > 80, "{operations}");
    }
}

#[test]
fn a_death_at_every_write_of_a_database() {
    for has_files in [false, true] {
        let world = World::new(has_files);
        for step in world
            .steps
            .iter()
            .filter(|step| matches!(step.change, Change::NssCertificate { .. }))
        {
            let mut operations = 0;
            while world.die_and_undo(&[step], (operations, operations / 2)) {
                operations += 1;
            }
            assert!(operations > 20, "{operations}");
        }
    }
}

fn uses_certutil(step: &Step) -> bool {
    matches!(
        step.change,
        Change::NssCertificate { .. } | Change::FirefoxPolicies { .. }
    )
}

#[test]
fn applied_steps_and_undone_steps_are_no_operations() {
    let world = World::new(true);
    let before = world.look();
    let mut machine = world.machine();
    for step in &world.steps {
        assert!(!machine.is_in_effect(step).unwrap(), "{step:?}");
        assert_eq!(machine.apply(step).unwrap(), Outcome::Applied, "{step:?}");
        assert!(machine.is_in_effect(step).unwrap(), "{step:?}");
    }
    let applied = world.look();
    for step in &world.steps {
        assert_eq!(machine.apply(step).unwrap(), Outcome::InEffect);
    }
    assert_eq!(world.look(), applied);
    let numbers: Vec<u32> = machine.journalled().iter().map(|step| step.number).collect();
    assert_eq!(numbers.len(), world.steps.len());
    // Not in order: each change is undone without the others.
    for number in &numbers {
        assert!(machine.undo(*number).unwrap().is_empty());
    }
    assert_eq!(world.look(), before);
    for number in &numbers {
        machine.undo(*number).unwrap();
    }
    assert_eq!(world.look(), before);
}

#[test]
fn changes_of_the_user_stay() {
    let world = World::new(false);
    let home = world.tree.join("home/ann");
    let profile = home.join(".mozilla/firefox/x.default");
    let mut machine = world.machine();
    for step in &world.steps {
        machine.apply(step).unwrap();
    }
    // The browser's own entry in the database, and Firefox's copy of the preferences.
    if has_certutil() {
        let database = format!("sql:{}", profile.display());
        let pem = home.join("other.pem");
        fs::write(&pem, AUTHORITY).unwrap();
        let other = [
            "-A",
            "-d",
            &database,
            "-n",
            "other",
            "-t",
            ",,",
            "-i",
            pem.to_str().unwrap(),
        ];
        assert!(
            SystemCommands
                .run(&CommandLine::new("certutil", other))
                .unwrap()
                .is_success
        );
    }
    let add = |path: &Path, text: &str| {
        let old = fs::read_to_string(path).unwrap_or_default();
        fs::write(path, old + text).unwrap();
    };
    add(&profile.join("user.js"), "user_pref(\"mine\", 1);\n");
    add(
        &profile.join("prefs.js"),
        "user_pref(\"b\", 1);\nuser_pref(\"network.proxy.type\", 2);\n",
    );
    add(
        &home.join(".config/longhaul/agent.toml"),
        "except = [\"x.test\"]\n",
    );
    let policy = world
        .tree
        .join("root/etc/chromium/policies/managed/longhaul.json");
    add(&policy, "\n");
    let mut remarks = Vec::new();
    for step in machine.journalled().into_iter().rev() {
        remarks.extend(machine.undo(step.number).unwrap());
    }
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    assert_eq!(text(&profile.join("user.js")), "user_pref(\"mine\", 1);\n");
    assert_eq!(text(&profile.join("prefs.js")), "user_pref(\"b\", 1);\n");
    assert_eq!(
        text(&home.join(".config/longhaul/agent.toml")),
        "[https]\nexcept = [\"x.test\"]\n"
    );
    assert!(!policy.exists());
    assert!(remarks[0].contains("longhaul.json"), "{remarks:?}");
    assert!(text(&world.state.join("kept/longhaul.json")).contains("ProxySettings"));
    assert!(!home.join(".local").exists() && !home.join(".config/systemd").exists());
    if has_certutil() {
        assert_eq!(nss::find(&world.system, &profile, AUTHORITY).unwrap(), []);
        assert!(
            profile.join("cert9.db").exists(),
            "the database that somebody used stays"
        );
    }
}

#[test]
fn failures_leave_nothing_behind() {
    let world = World::new(true);
    let home = world.tree.join("home/ann");
    fs::write(
        home.join(".config/longhaul/agent.toml"),
        "https.accelerate = \"off\"\n",
    )
    .unwrap();
    fs::write(home.join(".mozilla/firefox/x.default/cert9.db-journal"), "").unwrap();
    fs::write(world.tree.join("root/etc/firefox/policies/policies.json"), "{").unwrap();
    let before = world.look();
    let mut machine = world.machine();
    let failed = world.steps.iter().filter(|step| {
        let error = machine.apply(step).err();
        assert!(
            error
                .as_ref()
                .is_none_or(|error| matches!(error, ChangeError::Unsuitable { .. })),
            "{error:?}"
        );
        error.is_some()
    });
    assert_eq!(failed.count(), if has_certutil() { 3 } else { 1 });
    World::undo_all(&mut machine).unwrap();
    assert_eq!(world.look(), before);
}

#[cfg(unix)]
#[test]
fn a_linked_file_stays_linked() {
    let world = World::new(true);
    let user_js = world.tree.join("home/ann/.mozilla/firefox/x.default/user.js");
    let dotfiles = world.tree.join("home/ann/dotfiles.js");
    fs::rename(&user_js, &dotfiles).unwrap();
    std::os::unix::fs::symlink(&dotfiles, &user_js).unwrap();
    let before = world.look();
    let mut machine = world.machine();
    for step in world
        .steps
        .iter()
        .filter(|step| matches!(step.change, Change::FirefoxPreferences { .. }))
    {
        machine.apply(step).unwrap();
        assert!(fs::read_to_string(&dotfiles).unwrap().contains("proxy.pac"));
    }
    World::undo_all(&mut machine).unwrap();
    assert!(user_js.is_symlink());
    assert_eq!(world.look(), before);
}

/// Creates the state directory and ends it again; returns true if the process died.
fn begin_and_end(world: &World, state: &Path, (begin, end): (u32, u32)) -> bool {
    let open = |operations: Option<u32>| {
        let mut machine = Machine::open(state, &world.system).unwrap();
        machine.disk.left = operations.map(Cell::new);
        machine
    };
    let has_died = |done: Result<(), ChangeError>| match done {
        Ok(()) => false,
        Err(error) if is_death(&error) => true,
        Err(error) => panic!("{error}"),
    };
    let died = has_died(open(Some(begin)).create_state_directory());
    let died = has_died(open(Some(end)).end()) || died;
    // Either command completes what another one began: `up` or `uninstall`.
    if begin % 2 == 0 {
        open(None).create_state_directory().unwrap();
        assert!(state.join("changes.json").exists());
    }
    open(None).end().unwrap();
    died
}

#[test]
fn directories_of_the_state_directory_are_removed_after_a_death_at_every_write() {
    /// More operations than creation and end have.
    const OPERATIONS: u32 = 24;
    let world = World::new(true);
    let home = world.tree.join("home/ann");
    for above in ["", ".local", ".local/share"] {
        fs::create_dir_all(home.join(above)).unwrap();
        let before = world.look();
        for deep in [".local/state/longhaul-agent", "longhaul-agent"] {
            let mut deaths = 0;
            for (begin, end) in (0..OPERATIONS).flat_map(|begin| (0..OPERATIONS).map(move |end| (begin, end)))
            {
                deaths += u32::from(begin_and_end(&world, &home.join(deep), (begin, end)));
                let after = world.look();
                assert!(after == before, "{deep}, {begin}, {end}: {:?}", after.keys());
            }
            let all = OPERATIONS * OPERATIONS;
            assert!(deaths > all / 4 && deaths < all, "{deaths} of {all}");
        }
    }
}
