//! The check of the hop: which trouble, and the command that mends it. Pure.
use super::{
    checks::{Finding, Verdict},
    facts::{Facts, Hop},
};
use crate::agent_state::Enrolment;

/// Sets the clock by the network.
pub(super) const SET_CLOCK: &str = "sudo timedatectl set-ntp true";

pub(super) fn judge(facts: &Facts) -> Verdict {
    match &facts.hop {
        Hop::Works if is_intercepted(facts) => vec![interception(facts)].into(),
        Hop::Works => Verdict::Healthy,
        // The check of the portal has the finding.
        Hop::Trouble { kind, .. } if kind == "captive_portal" => {
            Verdict::Skipped("the network's login page is in the way".to_owned())
        }
        Hop::Unknown(why) => Verdict::Skipped(why.clone()),
        Hop::Trouble {
            kind, detail, port, ..
        } => vec![finding(facts, kind, detail, port.as_deref())].into(),
    }
}

fn finding(facts: &Facts, kind: &str, detail: &str, alone: Option<&str>) -> Finding {
    let flag = &facts.state_flag;
    let (host, port) = gateway(facts);
    let here = |mend: String| Finding::here(kind, detail.to_owned(), mend);
    let at_gateway = |mend: String| Finding::at_gateway(kind, detail.to_owned(), mend);
    match kind {
        "offline" => here("nmcli networking on".to_owned()),
        "name_lookup_failed" => here("nmcli networking off && nmcli networking on".to_owned()),
        "name_not_found" | "not_enrolled" | "revoked" | "invite_expired" => {
            here(format!("longhaul enroll{flag} --replace LINE"))
        }
        "port_closed" => at_gateway("sudo systemctl start longhaul-gateway".to_owned()),
        // The first thing that tells the three causes apart: whether the datagrams arrive.
        "silent" => at_gateway(match alone {
            Some(alone) => format!("sudo tcpdump -ni any {alone}"),
            None => format!("sudo tcpdump -ni any udp port {port}"),
        }),
        // The settings decide whether such a network is used.
        "intercepted" => here("longhaul-agent check-config | grep carrier.pin".to_owned()),
        // The agent's settings name the proxy. What its administrator or the other side has to do is in the detail.
        "proxy_credentials" | "proxy_forbids" | "proxy_is_agent" | "proxy_no_way" | "proxy_not_a_proxy"
        | "proxy_not_reached" => here("longhaul-agent check-config | grep proxy".to_owned()),
        // The operator raises `limits.sessions`, which applies at a reload.
        "gateway_full" => at_gateway(
            "sudoedit /etc/longhaul/gateway.toml && sudo systemctl reload longhaul-gateway".to_owned(),
        ),
        // Whoever drains a gateway starts it again, or forgot to.
        "gateway_draining" => at_gateway("sudo systemctl start longhaul-gateway".to_owned()),
        "taken_over" => at_gateway(format!(
            "longhaul-gateway invite --name NAME --address {host}:{port}"
        )),
        "clock_off" => here(SET_CLOCK.to_owned()),
        "version_mismatch" => here("longhaul --version; longhaul-gateway --version".to_owned()),
        // A trouble of a newer agent, or one that a new session may end.
        _ => here(facts.restart_command.clone()),
    }
}

/// True if the agent's session runs over TLS that somebody on the way ends.
fn is_intercepted(facts: &Facts) -> bool {
    let running = facts.state.running();
    running.is_some_and(|agent| agent.status["session"]["intercepted"] == true)
}

fn interception(facts: &Facts) -> Finding {
    let (host, _) = gateway(facts);
    // A session over QUIC names no TCP port: the box probably ends TLS on that of HTTPS, too.
    let running = facts.state.running();
    let port = running.and_then(|agent| agent.status["session"]["tls_port"].as_u64());
    let port = port.unwrap_or(443);
    Finding::here(
        "intercepted",
        "the session works, but this network ends TLS to the gateway and opens it anew; it sees ciphertext only".to_owned(),
        format!(
            "openssl s_client -connect {host}:{port} -servername {host} </dev/null | openssl x509 -noout -issuer"
        ),
    )
}

/// Host and port of the gateway.
fn gateway(facts: &Facts) -> (&str, &str) {
    match &facts.state.enrolment {
        Enrolment::Present { gateway, .. } => gateway.rsplit_once(':').unwrap_or((gateway, "4433")),
        Enrolment::Absent | Enrolment::Damaged(_) => ("HOST", "4433"),
    }
}
