//! `longhaul uninstall`
use std::{fs, io, path::Path};

use longhaul_trust::{Machine, SystemCommands, quoted};

use super::{Report, State, SwitchError, Target, agent, down::undo_all, is_our_directory, questions};
use crate::cli::DownArgs;

/// Files of the state directory. Only these are removed if the directory has another name than the default
/// one, because it may have files of others.
const FILES: &[&str] = &[
    "invite",
    "device-key",
    "credentials-secret",
    "token",
    "stamp",
    "agent.json",
    "lock",
    "control-token",
    "forget.json",
    "gateway-announced",
    "journal.sqlite",
    "journal.sqlite-shm",
    "journal.sqlite-wal",
    "journal.sqlite.damaged",
    "networks",
    "network-secret",
    "savings.sqlite",
    "savings.sqlite-shm",
    "savings.sqlite-wal",
    "savings.sqlite.damaged",
    "rules",
    "unaccelerated.json",
    "ca.key",
    "ca.pem",
    "cache",
    ".changes.json.longhaul-new",
    "changes",
    "work",
];
const JOURNAL: &str = "changes.json";
/// Files of Longhaul that the user changed; they stay.
const KEPT: &str = "kept";

/// Undoes all changes and removes keys, certificate authority and caches.
///
/// # Errors
/// The journal cannot be read, or a file cannot be removed.
pub fn uninstall(args: &DownArgs) -> Result<Report, SwitchError> {
    let target = Target::of(&args.places)?;
    let mut report = Report::new("uninstall", args.dry_run);
    let may_ask = !args.yes && !args.dry_run && questions::is_possible();
    if !args.yes && !args.dry_run && !may_ask {
        let words = "there is no terminal to ask on: say --yes to remove this device's keys";
        return Err(SwitchError::Usage(words.to_owned()));
    }
    let question = format!(
        "Undo all changes and remove this device's keys, certificate authority and caches in {}? A new enrolment needs a \
         new line from the gateway's operator.",
        target.state_dir.display()
    );
    if may_ask && !questions::is_sure(&question) {
        return Err(SwitchError::Declined);
    }
    undo_all(&target, may_ask, &mut report)?;
    let state = target.state_dir.display().to_string();
    let by_hand = format!("rm -r {}", quoted(&state));
    let removal = (
        "Keys, certificate authority and caches of this device are removed",
        &*state,
        &*by_hand,
    );
    if !target.state_dir.exists() {
        if !args.dry_run {
            // A process that died may have left directories above.
            Machine::open(&target.state_dir, &SystemCommands)?.end()?;
        }
        return Ok(report);
    }
    if args.dry_run {
        report.add(removal, State::Planned);
    } else if !report.is_success() {
        // The journal is needed to undo the rest.
        report.add(
            removal,
            State::Skipped("other changes are not undone yet".to_owned()),
        );
    } else {
        if let Some(agent) = agent::published(&target) {
            let reason = format!(
                "the agent still runs; end it with `kill {}` and run this again",
                agent.pid
            );
            report.add(removal, State::Failed(reason));
            return Ok(report);
        }
        report.add(removal, State::Applied);
        remove_state(&target, &mut report)?;
    }
    Ok(report)
}

fn remove_state(target: &Target, report: &mut Report) -> Result<(), SwitchError> {
    let machine = Machine::open(&target.state_dir, &SystemCommands)?;
    let entries =
        fs::read_dir(&target.state_dir).map_err(|source| remove_error(&target.state_dir, source))?;
    let mut left = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // The journal names the directories that were created, so it goes last.
        if name == JOURNAL {
            continue;
        }
        let is_ours = is_our_directory(&target.state_dir) || FILES.contains(&name.as_str());
        if is_ours && name != KEPT {
            remove(&entry.path())?;
        } else {
            left.push(name);
        }
    }
    machine.end()?;
    if !left.is_empty() {
        report.notes.push(format!(
            "{} still has: {}",
            target.state_dir.display(),
            left.join(", ")
        ));
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), SwitchError> {
    let is_directory = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_directory {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    removed.map_err(|source| remove_error(path, source))
}

fn remove_error(path: &Path, source: io::Error) -> SwitchError {
    let path = path.to_owned();
    SwitchError::Remove { path, source }
}
