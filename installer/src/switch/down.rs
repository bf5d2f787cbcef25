//! `longhaul down`
use longhaul_trust::{Machine, SystemCommands};

use super::{Report, State, SwitchError, Target, agent, browsers_in_the_way, holder, questions, undo};
use crate::cli::DownArgs;

/// Undoes all changes of `longhaul up`; keys and caches stay.
///
/// # Errors
/// The journal cannot be read. What could not be undone is in the report.
pub fn down(args: &DownArgs) -> Result<Report, SwitchError> {
    let target = Target::of(&args.places)?;
    let mut report = Report::new("down", args.dry_run);
    let may_ask = !args.yes && !args.dry_run && questions::is_possible();
    undo_all(&target, may_ask, &mut report)?;
    if !args.dry_run
        && let Some(agent) = agent::published(&target)
    {
        report.notes.push(format!(
            "The agent still runs, because `longhaul up` did not start it; end it with: kill {}",
            agent.pid
        ));
    }
    Ok(report)
}

/// Undoes all changes in reverse order, or lists them if the report is of a dry run.
pub(super) fn undo_all(target: &Target, may_ask: bool, report: &mut Report) -> Result<(), SwitchError> {
    let mut machine = Machine::open(&target.state_dir, &SystemCommands)?;
    let mut journalled = machine.journalled();
    journalled.reverse();
    if report.is_dry_run() {
        for entry in &journalled {
            report.push(&entry.step, State::ToUndo);
        }
        return Ok(());
    }
    let steps = journalled.iter().map(|entry| &entry.step);
    let running = browsers_in_the_way(target, steps, may_ask);
    for entry in &journalled {
        match holder(&running, &entry.step) {
            Some(name) => {
                let reason = format!("{name} runs; close it and run this again");
                report.push(&entry.step, State::Skipped(reason));
            }
            None => undo(&mut machine, (entry.number, &entry.step), report),
        }
    }
    // An incomplete change that is left was reported above; copies of a dead process may be left, too.
    if machine.journalled().is_empty() && target.state_dir.exists() {
        machine.settle()?;
    }
    Ok(())
}
