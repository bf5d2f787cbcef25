//! The objects inside the status.
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    gateway::{GatewaySession, UsedCarrier},
    https::{self, Accelerate, Https},
    trouble::{LoginPage, Trouble},
    upstream::{Upstream, WaitingPageState},
};

/// A page that waits for the hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingStatus {
    /// Number for `POST /waiting/cancel?id=`.
    pub id: u64,
    /// What was asked for.
    pub url: String,
    /// Duration of the wait in s.
    pub waited_s: f64,
    /// True if the answer has arrived and waits until the page is opened again.
    pub ready: bool,
}

impl From<WaitingPageState> for WaitingStatus {
    fn from(page: WaitingPageState) -> Self {
        Self {
            id: page.id.0,
            url: page.url,
            waited_s: page.waited.as_secs_f64(),
            ready: page.is_ready,
        }
    }
}

/// What is wrong with the hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TroubleStatus {
    /// The kind: `offline`, `silent`, `port_closed`, ... (docs/INSTALL.md section 4).
    pub kind: String,
    /// Time since its beginning, in s.
    pub since_s: f64,
    /// Description for people, with what to do.
    pub detail: String,
    /// `udp`, `tls`, `quic` or `auto` if the kind is `silent` or `port_closed`: the carriers over which the gateway was tried.
    #[serde(default)]
    pub over: Option<String>,
    /// TCP port of TLS, if it was tried.
    #[serde(default)]
    pub tls_port: Option<u16>,
    /// UDP port of QUIC, if it was tried.
    #[serde(default)]
    pub quic_port: Option<u16>,
    /// Address of the network's login page, if the kind is `captive_portal`.
    #[serde(default)]
    pub login_page: Option<String>,
}

impl TroubleStatus {
    /// Returns the entry of a trouble that began `since` ago.
    pub fn new(trouble: &Trouble, since: Duration) -> Self {
        Self {
            kind: trouble.kind().to_owned(),
            since_s: since.as_secs_f64(),
            detail: trouble.to_string(),
            over: trouble.tried().map(|tried| tried.name().to_owned()),
            tls_port: trouble.tried().and_then(|tried| tried.tls),
            quic_port: trouble.tried().and_then(|tried| tried.quic),
            login_page: trouble.login_page().map(LoginPage::address),
        }
    }
}

/// Accelerated HTTPS, which the gateway can read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HttpsStatus {
    /// `off`, `list` or `all`.
    pub accelerate: String,
    /// The accelerated hosts, if `accelerate` is `list`.
    pub hosts: Vec<String>,
    /// Hosts that are never accelerated.
    pub except: Vec<String>,
    /// SHA-256 fingerprint of the device's certificate authority, which browsers must trust; `null` if
    /// nothing is accelerated.
    pub fingerprint: Option<String>,
    /// True if the certificate authority was removed during this run, so that nothing is accelerated.
    #[serde(default)]
    pub authority_removed: bool,
    /// Connections accelerated so far.
    pub connections: u64,
    /// Bypassed hosts with their reasons. Agents before version 0.3 call them `spared`.
    #[serde(alias = "spared")]
    pub bypassed: Vec<BypassedHost>,
}

impl HttpsStatus {
    pub(super) fn of(https: &Https, connections: u64) -> Self {
        let settings = https.settings();
        let (accelerate, hosts) = match &settings.accelerate {
            Accelerate::Off => ("off", Vec::new()),
            Accelerate::Only(hosts) => ("list", hosts.clone()),
            Accelerate::All => ("all", Vec::new()),
        };
        let bypassed = https.bypassed_hosts();
        Self {
            accelerate: accelerate.to_owned(),
            hosts,
            except: settings.except.clone(),
            fingerprint: https.fingerprint(),
            authority_removed: https.is_authority_removed(),
            connections,
            bypassed: bypassed.into_iter().map(BypassedHost::from).collect(),
        }
    }
}

/// A bypassed host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BypassedHost {
    /// Host name.
    pub host: String,
    /// Reason, for people.
    pub why: String,
    /// End of the bypass, in seconds since 1970.
    pub until: u64,
    /// True if the bypass applies to one program only; other programs are accelerated.
    #[serde(default)]
    pub one_program: bool,
    /// The `User-Agent` of that program, if it says one.
    #[serde(default)]
    pub program: Option<String>,
    /// True if that program is bypassed at all hosts, because it does not have the certificate authority.
    #[serde(default)]
    pub everywhere: bool,
}

impl From<https::BypassedHost> for BypassedHost {
    fn from(bypassed: https::BypassedHost) -> Self {
        Self {
            host: bypassed.host,
            why: bypassed.why.text().to_owned(),
            until: bypassed.until.since_epoch().as_secs(),
            one_program: bypassed.program.is_some(),
            program: bypassed.program_name,
            everywhere: bypassed.everywhere,
        }
    }
}

/// One session, from its transport's statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Smoothed round-trip time, ms; `null` until it is measured.
    pub rtt_ms: Option<f64>,
    /// Smallest recent round-trip time, ms; `null` if none is measured.
    pub min_rtt_ms: Option<f64>,
    /// Estimated rate of the link towards this computer, bit/s; `null` until it is measured.
    pub rate_bps: Option<u64>,
    /// Carrier of the session: `udp`, `tls` or `quic`.
    #[serde(default)]
    pub carrier: String,
    /// TCP port of the gateway if the carrier is `tls`.
    #[serde(default)]
    pub tls_port: Option<u16>,
    /// True if the carrier is not `udp` and somebody on the way ends TLS; what is intercepted is ciphertext.
    #[serde(default)]
    pub intercepted: bool,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Number of stalls.
    pub stalls: u64,
}

impl SessionStatus {
    pub(super) fn of(session: &GatewaySession, upstream: &Upstream) -> Self {
        let stats = session.stats();
        let carrier = UsedCarrier::of(&stats);
        Self {
            rtt_ms: stats.measured_srtt.map(|rtt| rtt.as_secs_f64() * 1000.0),
            min_rtt_ms: stats.min_rtt.map(|rtt| rtt.as_secs_f64() * 1000.0),
            rate_bps: stats.measured_receive_rate.map(|rate| rate.as_bps()),
            carrier: carrier.name().to_owned(),
            tls_port: (carrier == UsedCarrier::Tls).then_some(upstream.tls_port),
            intercepted: upstream.certificates.is_intercepted() && carrier != UsedCarrier::Udp,
            packets_sent: stats.packets_sent,
            packets_received: stats.packets_received,
            stalls: stats.stalls,
        }
    }
}
