//! `longhaul status`: enrolment, agent, hop and browsers of this device.
use std::fmt::Write as _;

use longhaul_types::{BitRate, ByteCount};
use serde_json::{Value, json};

use crate::agent_state::{self, AgentProcess, AgentState, Enrolment, RunningAgent};

/// Returns the status as text for people.
pub fn to_text(state: &AgentState) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        let _infallible = writeln!(out, "{name:<10} {value}");
    };
    line(
        "enrolled",
        &match &state.enrolment {
            Enrolment::Absent => {
                "no: run `longhaul up LINE` with the line from the gateway's operator".to_owned()
            }
            Enrolment::Damaged(why) => format!("no: {why}"),
            Enrolment::Present { gateway, key } => format!("with the gateway {gateway} (key {key})"),
        },
    );
    let agent = match &state.agent {
        AgentProcess::Running(agent) => agent,
        AgentProcess::Absent => {
            line(
                "agent",
                "does not run: `longhaul doctor` names the command that starts it",
            );
            return out;
        }
        AgentProcess::Silent(pid, error) => {
            let process = agent_state::process(*pid);
            line("agent", &format!("{process}, does not answer: {error}"));
            return out;
        }
    };
    let uptime = duration(agent.number("uptime_s"));
    line(
        "agent",
        &format!(
            "runs for {uptime}, process {}, version {}",
            agent.pid, agent.version
        ),
    );
    line("hop", &hop(agent));
    line("link", &link(agent));
    line("browsers", &browsers(agent));
    line("https", &https(&agent.status["https"]));
    if let Some(saved) = agent.status["savings"]["bytes"].as_u64() {
        line("saved", &ByteCount::new(saved).to_string());
    }
    line("proxy", &agent.proxy.to_string());
    line("script", &agent.proxy_script());
    line("page", &agent.status_page());
    out
}

/// Returns the status as one line of JSON: the members of the agent's `status.json`, if it runs, and those that
/// only this command knows.
pub fn to_json(state: &AgentState) -> String {
    let agent = state.running();
    let mut all = agent.map_or_else(|| json!({}), |agent| agent.status.clone());
    let (enrolled, gateway) = match &state.enrolment {
        Enrolment::Present { gateway, .. } => (true, Some(gateway)),
        Enrolment::Absent | Enrolment::Damaged(_) => (false, None),
    };
    all["working"] = json!(is_working(state));
    all["enrolled"] = json!(enrolled);
    all["gateway"] = json!(gateway);
    all["agent"] = match agent {
        Some(agent) => json!({
            "running": true,
            "pid": agent.pid,
            "uptime_s": agent.number("uptime_s"),
            "version": agent.version,
        }),
        None => json!({ "running": false, "pid": null, "uptime_s": null, "version": null }),
    };
    all["browsers_connected"] = json!(agent.map(|agent| agent.number("requests") > 0));
    all["proxy_script"] = json!(agent.map(RunningAgent::proxy_script));
    all["status_page"] = json!(agent.map(RunningAgent::status_page));
    format!("{all}\n")
}

/// True if this device is enrolled, its agent runs, and the hop works or may still begin to work.
pub fn is_working(state: &AgentState) -> bool {
    // An agent may have its invite from its settings.
    state.running().is_some_and(RunningAgent::is_hop_working)
}

fn hop(agent: &RunningAgent) -> String {
    let state = agent.text("state");
    match agent.trouble() {
        Some((kind, detail)) => {
            let since = agent.status["trouble"]["since_s"].as_f64().unwrap_or_default();
            format!("{state}, {kind} for {since:.0} s: {detail}")
        }
        None => state.to_owned(),
    }
}

fn link(agent: &RunningAgent) -> String {
    let session = &agent.status["session"];
    let not_measured = || "not measured".to_owned();
    let rtt = session["rtt_ms"]
        .as_f64()
        .map_or_else(not_measured, |rtt| format!("{rtt:.0} ms"));
    let rate = session["rate_bps"]
        .as_u64()
        .map_or_else(not_measured, |rate| BitRate::bps(rate).to_string());
    let bytes = |key| ByteCount::new(agent.number(key));
    format!(
        "RTT {rtt}, rate {rate}; {} received, {} sent",
        bytes("bytes_down"),
        bytes("bytes_up")
    )
}

fn browsers(agent: &RunningAgent) -> String {
    let (requests, failures) = (agent.number("requests"), agent.number("failures"));
    if requests == 0 {
        return "none has come yet: `longhaul up` sets browsers up".to_owned();
    }
    let direct = if agent.status["direct_in_use"] == true {
        "; pages load without the gateway at present"
    } else {
        ""
    };
    format!("{requests} requests, {failures} failed{direct}")
}

fn https(https: &Value) -> String {
    let names = |key: &str| {
        let names = https[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        names.join(", ")
    };
    let accelerated = match https["accelerate"].as_str() {
        Some("all") => "accelerated, except the built-in exclusions".to_owned(),
        Some("list") => format!("accelerated for {}", names("hosts")),
        _ => return "not accelerated".to_owned(),
    };
    let bypassed = https["bypassed"].as_array().map_or(0, Vec::len);
    match bypassed {
        0 => accelerated,
        _ => format!("{accelerated}; {bypassed} hosts bypassed (`longhaul doctor` lists them)"),
    }
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(status: Value) -> AgentState {
        AgentState {
            enrolment: Enrolment::Absent,
            agent: AgentProcess::Running(Box::new(RunningAgent {
                pid: 7,
                proxy: "127.0.0.1:3128".parse().unwrap(),
                control: "127.0.0.1:3129".parse().unwrap(),
                version: "1.2.3".to_owned(),
                token: Some("ab".to_owned()),
                status,
            })),
        }
    }

    #[test]
    fn figures_that_nobody_measured_are_named_so() {
        let state = running(json!({
            "state": "connecting", "requests": 0, "uptime_s": 5, "bytes_up": 300, "bytes_down": 0,
            "trouble": { "kind": "silent", "since_s": 4.2, "detail": "no answer" },
            "session": { "rtt_ms": null, "rate_bps": null }, "https": { "accelerate": "off" },
        }));
        let text = to_text(&state);
        for words in [
            "hop        connecting, silent for 4 s: no answer",
            "RTT not measured, rate not measured; 0 B received, 300 B sent",
            "none has come yet",
            "runs for 5 s, process 7",
            "http://127.0.0.1:3129/?token=ab\n",
        ] {
            assert!(text.contains(words), "no `{words}` in\n{text}");
        }
        assert!(!is_working(&state) && !text.contains("saved"), "{text}");
        let json: Value = serde_json::from_str(&to_json(&state)).unwrap();
        assert_eq!(
            (&json["working"], &json["browsers_connected"]),
            (&json!(false), &json!(false))
        );
        assert_eq!((&json["agent"]["pid"], &json["requests"]), (&json!(7), &json!(0)));
    }

    #[test]
    fn savings_are_shown_if_the_agent_reports_them() {
        let state = running(json!({ "state": "open", "requests": 3, "savings": { "bytes": 2000 } }));
        let text = to_text(&state);
        assert!(
            text.contains("saved      ") && text.contains("3 requests, 0 failed"),
            "{text}"
        );
        assert!(is_working(&state));
    }

    #[test]
    fn without_an_agent_the_status_says_so() {
        let state = AgentState {
            enrolment: Enrolment::Absent,
            agent: AgentProcess::Absent,
        };
        assert!(to_text(&state).contains("agent      does not run"));
        let json: Value = serde_json::from_str(&to_json(&state)).unwrap();
        assert_eq!(json["agent"]["running"], false);
        assert_eq!(
            (&json["enrolled"], &json["working"]),
            (&json!(false), &json!(false))
        );
    }
}
