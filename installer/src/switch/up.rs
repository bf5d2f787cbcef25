//! `longhaul up`
use std::path::Path;

use longhaul_trust::{
    Accelerate, Authority, Browsers, Machine, Outcome, Places, Step, Survey, SystemCommands, Wishes,
    plan_linux,
};
use longhaul_types::Invite;

use super::{
    Report, State, SwitchError, Target, agent, browsers_in_the_way, explain, holder,
    questions::{self, Answer},
    undo,
};
use crate::{
    cli::{HttpsChoice, UpArgs},
    enroll::{self, Replace},
    running_agent,
};

/// Plans, shows, asks, and switches Longhaul on.
///
/// # Errors
/// Nothing could be done; what failed in single steps is in the report.
pub fn up(args: &UpArgs, invite: Option<&Invite>) -> Result<Report, SwitchError> {
    let chosen = https_of(args)?;
    let target = Target::of(&args.places)?;
    let may_ask = !args.yes && !args.dry_run && questions::is_possible();
    if !args.yes && !args.dry_run && !may_ask {
        let words = "there is no terminal to ask on: say --yes to apply the plan, or --dry-run to see it";
        return Err(SwitchError::Usage(words.to_owned()));
    }
    let is_enrolled = target.state_dir.join("invite").exists();
    match invite {
        Some(invite) => enroll::check(invite, &target.state_dir)?,
        None if !is_enrolled && !args.dry_run => return Err(SwitchError::NotEnrolled),
        None => {}
    }
    let mut plan = Planner::new(args, &target)?;
    let asks_for_https = may_ask && chosen.is_none() && agent::accelerated(&target).is_none();
    let accelerate = chosen.or_else(|| agent::accelerated(&target));
    let shown = if asks_for_https {
        Some(Accelerate::All)
    } else {
        accelerate.clone()
    };
    let mut machine = Machine::open(&target.state_dir, &SystemCommands)?;
    let report = plan.show(&machine, (invite, is_enrolled), shown.as_ref());
    if args.dry_run {
        return Ok(report);
    }
    let accelerate = match may_ask {
        true if asks_for_https => match questions::confirm(&plan_text(&report, true), true) {
            Answer::Yes(answer) => answer,
            Answer::No => return Err(SwitchError::Declined),
        },
        true => match questions::confirm(&plan_text(&report, false), false) {
            Answer::Yes(_) => accelerate,
            Answer::No => return Err(SwitchError::Declined),
        },
        false => accelerate,
    };
    let mut report = Report::new("up", false);
    machine.create_state_directory()?;
    if let Some(invite) = invite {
        let file = enroll::enroll(invite, &target.state_dir, Replace::Refuse)?;
        report.add((ENROLMENT, &file.display().to_string(), REMOVE), State::Applied);
        move_agent(&target, &mut report);
    }
    plan.make_authority(accelerate.as_ref())?;
    machine.settle()?;
    let steps = plan.steps(accelerate.as_ref());
    carry_out(&mut machine, &target, (&steps, may_ask), &mut report)?;
    plan.remark(accelerate.as_ref(), &mut report);
    Ok(report)
}

const ENROLMENT: &str = "This device is enrolled with the gateway";
const AUTHORITY: &str = "The agent makes a certificate authority; its key never leaves this device";
const REMOVE: &str = "longhaul uninstall";

fn plan_text(report: &Report, asks_for_https: bool) -> String {
    let remark = if asks_for_https {
        "Steps that mention the certificate authority or https are left out if https is not accelerated.\n"
    } else {
        ""
    };
    format!(
        "Plan; nothing is changed yet, and `longhaul down` undoes it:\n{}{remark}",
        report.to_text()
    )
}

/// Lets an agent that runs use the new invite.
fn move_agent(target: &Target, report: &mut Report) {
    let Some(running) = agent::published(target) else {
        return;
    };
    report
        .notes
        .push(match running_agent::use_invite(&target.state_dir) {
            Ok(answer) => format!("Process {}: {answer}.", running.pid),
            Err(error) => format!(
                "The running agent (process {}) still uses its earlier invite: {error}; restart the agent.",
                running.pid
            ),
        });
}

/// The flags about https.
fn https_of(args: &UpArgs) -> Result<Option<Accelerate>, SwitchError> {
    let hosts: Result<Vec<String>, String> = args.site.iter().map(|name| questions::host(name)).collect();
    let hosts = hosts.map_err(SwitchError::Usage)?;
    let wrong = |words: &str| Err(SwitchError::Usage(words.to_owned()));
    match args.https {
        Some(HttpsChoice::List) if hosts.is_empty() => wrong("--https list needs the sites: --site HOST..."),
        Some(HttpsChoice::List) => Ok(Some(Accelerate::Hosts(hosts))),
        _ if !hosts.is_empty() => wrong("--site needs --https list"),
        Some(HttpsChoice::Off) => Ok(Some(Accelerate::Off)),
        Some(HttpsChoice::All) => Ok(Some(Accelerate::All)),
        None => Ok(None),
    }
}

/// Computes plans for one machine.
struct Planner<'a> {
    args: &'a UpArgs,
    target: &'a Target,
    survey: Survey,
    program: Option<std::path::PathBuf>,
    addresses: [String; 2],
    authority: Option<Authority>,
}

impl<'a> Planner<'a> {
    fn new(args: &'a UpArgs, target: &'a Target) -> Result<Self, SwitchError> {
        // A plan can be shown without the agent's program.
        let program = match agent::program() {
            Ok(program) => Some(program),
            Err(_) if args.dry_run => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            args,
            target,
            survey: Survey::of(&target.places, has_session_bus(&target.places), &SystemCommands),
            program,
            addresses: agent::addresses(target),
            authority: agent::authority(target),
        })
    }

    fn program(&self) -> &Path {
        self.program
            .as_deref()
            .unwrap_or_else(|| Path::new("longhaul-agent"))
    }

    fn make_authority(&mut self, accelerate: Option<&Accelerate>) -> Result<(), SwitchError> {
        if is_accelerated(accelerate) {
            self.authority = Some(agent::make_authority(self.target, self.program())?);
        }
        Ok(())
    }

    fn has_config(&self, accelerate: Option<&Accelerate>) -> bool {
        is_accelerated(accelerate) || self.target.config().exists()
    }

    fn command(&self, accelerate: Option<&Accelerate>) -> Vec<String> {
        agent::command(self.target, self.program(), self.has_config(accelerate))
    }

    fn steps(&self, accelerate: Option<&Accelerate>) -> Vec<Step> {
        let [proxy, control] = &self.addresses;
        // A plan that is only shown needs no certificate.
        let unmade = || Authority {
            certificate: String::new(),
            file: self.target.state_dir.join("ca.pem"),
        };
        let wishes = Wishes {
            script: format!("http://{control}/proxy.pac"),
            proxy: proxy.clone(),
            authority: is_accelerated(accelerate).then(|| self.authority.clone().unwrap_or_else(unmade)),
            // `off` is the default and needs no line.
            accelerate: accelerate
                .filter(|wanted| **wanted != Accelerate::Off || agent::accelerated(self.target).is_some())
                .cloned(),
            config: self.target.config(),
            browsers: match (self.args.no_browser, self.args.all_users) {
                (true, _) => Browsers::Nobody,
                (false, true) => Browsers::AllUsers,
                (false, false) => Browsers::Own,
            },
            system_store: self.args.system_store,
            shells: self.args.shells,
            service: self
                .survey
                .has_user_services
                .then(|| agent::unit(&self.command(accelerate))),
        };
        plan_linux::steps(&self.target.places, &self.survey, &wishes)
    }

    /// The plan, without changing anything.
    fn show(
        &self,
        machine: &Machine<'_>,
        (invite, is_enrolled): (Option<&Invite>, bool),
        accelerate: Option<&Accelerate>,
    ) -> Report {
        let mut report = Report::new("up", true);
        let state_dir = &self.target.state_dir;
        if invite.is_some() {
            let file = state_dir.join("invite").display().to_string();
            report.add((ENROLMENT, &file, REMOVE), State::Planned);
        } else if !is_enrolled {
            report.notes.push(SwitchError::NotEnrolled.to_string());
        }
        if is_accelerated(accelerate) && self.authority.is_none() {
            let files = state_dir.join("ca.key").display().to_string() + ", ca.pem";
            report.add((AUTHORITY, &files, REMOVE), State::Planned);
        }
        let steps = self.steps(accelerate);
        for old in machine.journalled().iter().rev() {
            if !steps.iter().any(|step| step.change == old.step.change) {
                report.push(&old.step, State::ToUndo);
            }
        }
        for step in &steps {
            // A proof that cannot be made now, as without certutil, says nothing about the plan.
            let state = match machine.is_in_effect(step) {
                Ok(true) => State::InEffect,
                Ok(false) | Err(_) => State::Planned,
            };
            report.push(step, state);
        }
        self.remark(accelerate, &mut report);
        report
    }

    /// Adds what the user has to know or do.
    fn remark(&self, accelerate: Option<&Accelerate>, report: &mut Report) {
        let own = !self.args.no_browser && !self.args.all_users;
        if own && !self.survey.has_gnome && !self.survey.has_kde {
            report.notes.push(format!(
                "No settings of GNOME or KDE were found. Chromium takes its proxy from there; start it with \
                 `chromium --proxy-pac-url=http://{}/proxy.pac`, or use --all-users.",
                self.addresses[1]
            ));
        }
        if own && self.survey.has_firefox && self.survey.firefox_profiles.is_empty() {
            report
                .notes
                .push("Firefox has no profile yet: start it once, then run `longhaul up` again.".to_owned());
        }
        if self.args.all_users {
            report.notes.push(
                "The agent serves other users of this machine only if `listen.users` names them.".to_owned(),
            );
        }
        if !self.survey.has_user_services && agent::published(self.target).is_none() {
            report.notes.push(format!(
                "systemd runs no services of this user here. Start the agent with: {}",
                agent::typed(&self.command(accelerate))
            ));
        }
    }
}

fn is_accelerated(accelerate: Option<&Accelerate>) -> bool {
    !matches!(accelerate, None | Some(Accelerate::Off))
}

/// GNOME's settings need the session's message bus; without it, changes are lost.
fn has_session_bus(places: &Places) -> bool {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let socket =
        || variable("XDG_RUNTIME_DIR").is_some_and(|runtime| Path::new(&runtime).join("bus").exists());
    places.is_this_machine() && (variable("DBUS_SESSION_BUS_ADDRESS").is_some() || socket())
}

/// Undoes changes that are not wanted any more, and applies the steps.
fn carry_out(
    machine: &mut Machine<'_>,
    target: &Target,
    (steps, may_ask): (&[Step], bool),
    report: &mut Report,
) -> Result<(), SwitchError> {
    let journalled = machine.journalled();
    let old = journalled
        .iter()
        .rev()
        .filter(|old| !steps.iter().any(|step| step.change == old.step.change));
    let old: Vec<_> = old.collect();
    let new = steps
        .iter()
        .filter(|step| !machine.is_in_effect(step).unwrap_or_default());
    let changing = old.iter().map(|old| &old.step).chain(new);
    let running = browsers_in_the_way(target, changing.collect::<Vec<_>>().into_iter(), may_ask);
    let skipped = |name: &str| State::Skipped(format!("{name} runs; close it and run `longhaul up` again"));
    for old in old {
        match holder(&running, &old.step) {
            Some(name) => report.push(&old.step, skipped(name)),
            None => undo(machine, (old.number, &old.step), report),
        }
    }
    for step in steps {
        if let Some(name) = holder(&running, step).filter(|_| !machine.is_in_effect(step).unwrap_or_default())
        {
            report.push(step, skipped(name));
            continue;
        }
        let state = match machine.apply(step) {
            Ok(Outcome::Applied) => State::Applied,
            Ok(Outcome::InEffect) => State::InEffect,
            Err(error) => State::Failed(explain(&error)),
        };
        report.push(step, state);
    }
    Ok(())
}
