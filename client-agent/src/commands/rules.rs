//! The command `rules`: by the running agent, else on the file of the state directory.
use std::{fmt::Write as _, time::Duration};

use anyhow::Result;
use longhaul_agent::{
    config::{Environment, RulesCommand, RulesSetArgs},
    control_client,
    dashboard::RulesStatus,
    host_name::HostName,
    rules::{self, RuleChange},
    state_dir::StateDir,
};

use super::{RunningAgent, in_words, now, state_dir};
use crate::say;

/// `longhaul-agent rules`
pub(crate) async fn rules(command: &RulesCommand, environment: &Environment) -> Result<()> {
    let flag = match command {
        RulesCommand::List(args) => &args.state_dir,
        RulesCommand::Set(args) => &args.state_dir,
        RulesCommand::Remove(args) => &args.state_dir,
        RulesCommand::Pause(args) | RulesCommand::Resume(args) => &args.state_dir,
    };
    let state = state_dir(flag.as_deref(), environment)?;
    let running = RunningAgent::find(&state).await?;
    let changes = match command {
        RulesCommand::List(args) => return list(&state, running.as_ref(), args.json).await,
        RulesCommand::Set(args) => changes_of(args)?,
        RulesCommand::Remove(args) => match &args.name {
            Some(name) => vec![RuleChange::Remove(name.parse()?)],
            None => vec![RuleChange::RemoveAll],
        },
        RulesCommand::Pause(args) => vec![RuleChange::Pause(host(args.name.as_deref())?)],
        RulesCommand::Resume(args) => vec![RuleChange::Resume(host(args.name.as_deref())?)],
    };
    let Some(agent) = running else {
        rules::change_stored(&state, &changes)?;
        return say("stored; the agent uses it when it runs\n");
    };
    for change in &changes {
        say(&control_client::change_rules(agent.address, agent.token(), change).await?)?;
    }
    Ok(())
}

fn host(name: Option<&str>) -> Result<Option<HostName>> {
    Ok(name.map(str::parse).transpose()?)
}

fn changes_of(args: &RulesSetArgs) -> Result<Vec<RuleChange>> {
    let name: HostName = args.name.parse()?;
    let mut changes = Vec::new();
    if let Some(https) = args.https {
        changes.push(RuleChange::Https(name.clone(), https.rule()));
    }
    if let Some(images) = args.images {
        changes.push(RuleChange::Images(name.clone(), images));
    }
    if args.originals {
        changes.push(RuleChange::Originals(name));
    }
    Ok(changes)
}

async fn list(state: &StateDir, running: Option<&RunningAgent>, json: bool) -> Result<()> {
    let status = match running {
        Some(agent) => serde_json::from_str(&control_client::rules(agent.address, agent.token()).await?)?,
        None => RulesStatus::of(&rules::stored(state)?, now(), |_| None),
    };
    if json {
        return say(&format!("{}\n", serde_json::to_string(&status)?));
    }
    say(&in_lines(&status))
}

fn in_lines(status: &RulesStatus) -> String {
    let left = |until: u64| in_words(Duration::from_secs(until).saturating_sub(now().since_epoch()));
    let mut out = String::new();
    if let Some(until) = status.paused_until {
        let _infallible = writeln!(out, "everything is paused for another {}", left(until));
    }
    for rule in &status.rules {
        let mut parts = Vec::new();
        if let Some(https) = &rule.https {
            parts.push(format!("https {https}"));
        }
        if let Some(images) = &rule.images {
            parts.push(format!("pictures {images}"));
        }
        if let Some(until) = rule.originals_until {
            parts.push(format!("original pictures for another {}", left(until)));
        }
        if let Some(until) = rule.paused_until {
            parts.push(format!("paused for another {}", left(until)));
        }
        let _infallible = writeln!(out, "{}  {}", rule.name, parts.join(", "));
        if let Some(decision) = &rule.decision {
            let _infallible = writeln!(out, "    https {decision}");
        }
    }
    if out.is_empty() {
        out.push_str("there are no rules for sites\n");
    }
    out
}
