//! The status for tools: `/status.json`. The changelog lists each key that gets another name.
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    gateway::{GatewaySession, GatewayState, UsedCarrier},
    handles::Handles,
    https::{self, Accelerate, Https},
    savings::{ReportedFlows, SavedBytes},
    trouble::{LoginPage, Trouble},
    upstream::{Upstream, WaitingPageState},
};

/// The contents of `/status.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `connecting`, `open`, `stalled` or `down`; `portal` instead of the others than `open` while a login page of the
    /// network is in the way.
    pub state: String,
    /// Reason why there is no session, for people: the detail of `trouble`; `null` if nothing is wrong.
    pub reason: Option<String>,
    /// What is wrong with the hop; `null` if nothing is known to be wrong.
    pub trouble: Option<TroubleStatus>,
    /// The gateway's notice for the user in the current session; `null` if there is none.
    #[serde(default)]
    pub notice: Option<String>,
    /// Duration in s of the gateway's silence while an answer is due; `null` if there is none.
    pub silent_s: Option<f64>,
    /// The gateway's public key.
    pub gateway_key: String,
    /// The gateway's software, once `Welcome` has arrived.
    pub gateway_software: Option<String>,
    /// The current session, if there is one.
    pub session: Option<SessionStatus>,
    /// Source of what is known about the link: `told` (the setting `link`), `remembered` (earlier sessions in the
    /// same network) or `measured` (nothing but the current session).
    #[serde(default)]
    pub link: String,
    /// HTTP proxy of this network, without credentials, if the agent may use one; UDP does not.
    #[serde(default)]
    pub http_proxy: Option<String>,
    /// Bytes received on the hop in all sessions, including IP and UDP headers.
    pub bytes_down: u64,
    /// Bytes sent on the hop in all sessions, including IP and UDP headers.
    pub bytes_up: u64,
    /// Number of sessions that reached the open state.
    pub sessions: u64,
    /// Decoded and verified body bytes delivered to browsers.
    pub body_bytes_decoded: u64,
    /// What was saved.
    pub savings: SavingsStatus,
    /// `savings.bytes`; 0 if negative.
    pub bytes_saved: u64,
    /// Body bytes received from browsers.
    pub upload_bytes: u64,
    /// Raw bytes of tunnels in both directions.
    pub tunnel_bytes: u64,
    /// Requests of browsers, including CONNECT.
    pub requests: u64,
    /// Requests that ended with an error page or an aborted connection.
    pub failures: u64,
    /// Tunnels opened.
    pub tunnels: u64,
    /// Requests and tunnels sent directly, without the gateway.
    pub direct_requests: u64,
    /// True if requests are sent directly at present.
    pub direct_in_use: bool,
    /// Requests repeated in another session or outside early data.
    pub repeated: u64,
    /// Body windows that did not match their check.
    pub windows_bad: u64,
    /// Bodies requested again from an offset.
    pub resumed: u64,
    /// Bodies that were truncated.
    pub truncated: u64,
    /// True if page bundles are enabled.
    pub push_enabled: bool,
    /// Page loads started.
    pub pages: u64,
    /// Entries of manifests.
    pub announced: u64,
    /// Encoded bytes of pushed bodies on the hop.
    pub pushed_bytes: u64,
    /// Pushed bodies received completely.
    pub pushed_objects: u64,
    /// Bytes of `pushed_bytes` that belong to bodies used by browsers.
    pub push_taken_bytes: u64,
    /// Pushed bodies used by browsers.
    pub push_taken_objects: u64,
    /// Bytes of `pushed_bytes` that belong to bodies that no browser had used at the end of their page load.
    pub push_wasted_bytes: u64,
    /// Decoded bytes of pushed bodies in memory at present.
    pub push_memory_bytes: u64,
    /// Bodies requested again with `Want`: damaged, or not held although the gateway's mirror contained them.
    pub push_wanted: u64,
    /// Manifests kept for the next load of their page.
    pub manifests_kept: u64,
    /// Bodies served from the cache because the gateway reported them as held.
    pub held_hits: u64,
    /// Bodies encoded against a base of the cache.
    pub bases_used: u64,
    /// Bodies encoded against a dictionary.
    pub dictionaries_used: u64,
    /// Bodies encoded against a base that the cache did not have, and requested again.
    pub bases_missing: u64,
    /// Pages that wait for the hop, oldest first.
    #[serde(default)]
    pub waiting: Vec<WaitingStatus>,
    /// Accelerated HTTPS.
    pub https: HttpsStatus,
    /// Image level: `original`, `high`, `medium`, `low` or `text`.
    pub image_level: String,
    /// Bytes in the cache.
    pub cache_bytes: u64,
    /// Maximum size of the cache in bytes; 0 without a cache.
    pub cache_quota: u64,
    /// Bodies in the cache.
    #[serde(default)]
    pub cache_bodies: u64,
    /// Responses in the cache.
    #[serde(default)]
    pub cache_responses: u64,
    /// Body lookups that found the body in the cache.
    pub cache_hits: u64,
    /// Number of times the cache was reset: damaged file, newer version, full disk.
    pub cache_resets: u64,
    /// Number of exits from request phases, by phase and reason.
    pub exits: BTreeMap<String, u64>,
    /// Address of the proxy.
    pub proxy: SocketAddr,
    /// The control port.
    pub control: SocketAddr,
    /// Time since the agent's start, in s.
    pub uptime_s: u64,
    /// The agent's version.
    pub version: String,
}

/// Saved bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavingsStatus {
    /// The bytes, in total and by cause.
    #[serde(flatten)]
    pub saved: SavedBytes,
    /// What the gateway reported: the bytes of responses from origins and on the hop.
    #[serde(default)]
    pub flows: ReportedFlows,
    /// False if the gateway of the current session is of an older version, which does not report what origins
    /// sent: then only answers of the agent's cache are counted in this session.
    pub reported: bool,
}

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

impl Status {
    /// Returns the status of the agent with these components and addresses.
    pub(crate) fn of(handles: &Handles, proxy: SocketAddr, control: SocketAddr, uptime: Duration) -> Self {
        let Handles {
            upstream,
            storage,
            acceleration,
            counters,
        } = handles;
        let view = upstream.gateway.view();
        let traffic = upstream.gateway.traffic();
        let cache = storage.store.usage();
        let cache = cache.as_ref();
        let silent = view.silent_since.map(|since| since.elapsed());
        let totals = counters.savings.totals();
        let saved = totals.saved(traffic.reported_down);
        let reported = view
            .session
            .as_ref()
            .is_none_or(|session| session.welcome().is_none() || session.reports_origins());
        Self {
            state: match view.login_page() {
                Some(_) => "portal",
                None => name(view.state),
            }
            .to_owned(),
            reason: view.trouble().map(ToString::to_string),
            trouble: view
                .known_trouble()
                .map(|known| TroubleStatus::new(&known.trouble, known.since.elapsed())),
            notice: view.session.as_deref().and_then(GatewaySession::notice),
            silent_s: silent.map(|silent| silent.as_secs_f64()),
            gateway_key: upstream.gateway.key().to_string(),
            gateway_software: view
                .session
                .as_ref()
                .and_then(|session| session.welcome())
                .map(|welcome| welcome.software),
            session: view
                .session
                .as_deref()
                .map(|session| SessionStatus::of(session, upstream)),
            link: view.link.name().to_owned(),
            http_proxy: upstream.http_proxy.as_ref().map(|proxy| proxy.url().to_string()),
            bytes_down: traffic.down,
            bytes_up: traffic.up,
            sessions: traffic.sessions,
            body_bytes_decoded: counters.body_bytes_decoded.get(),
            savings: SavingsStatus {
                saved,
                flows: totals.flows(),
                reported,
            },
            bytes_saved: u64::try_from(saved.bytes).unwrap_or(0),
            upload_bytes: counters.upload_bytes.get(),
            tunnel_bytes: counters.tunnel_bytes.get(),
            requests: counters.requests.get(),
            failures: counters.failures.get(),
            tunnels: counters.tunnels.get(),
            direct_requests: counters.direct_requests.get(),
            direct_in_use: upstream
                .rules
                .load()
                .fallback_after
                .zip(silent)
                .is_some_and(|(after, silent)| silent >= after),
            repeated: counters.repeated.get(),
            windows_bad: counters.windows_bad.get(),
            resumed: counters.resumed.get(),
            truncated: counters.truncated.get(),
            push_enabled: acceleration.push.load().enabled,
            pages: counters.pages.get(),
            announced: counters.announced.get(),
            pushed_bytes: counters.pushed_bytes.get(),
            pushed_objects: counters.pushed_objects.get(),
            push_taken_bytes: counters.push_taken_bytes.get(),
            push_taken_objects: counters.push_taken_objects.get(),
            push_wasted_bytes: counters.push_wasted_bytes.get(),
            push_memory_bytes: acceleration.page_loads.memory_used(),
            push_wanted: counters.wanted.get(),
            manifests_kept: counters.manifests_kept.get(),
            held_hits: counters.held_hits.get(),
            bases_used: counters.bases_used.get(),
            dictionaries_used: counters.dictionaries_used.get(),
            bases_missing: counters.bases_missing.get(),
            waiting: upstream
                .waiting_pages
                .list()
                .into_iter()
                .map(WaitingStatus::from)
                .collect(),
            https: HttpsStatus::of(&acceleration.https, counters.accelerated.get()),
            image_level: acceleration.images.level().name().to_owned(),
            cache_bytes: cache.map_or(0, |cache| cache.bytes.bytes()),
            cache_quota: cache.map_or(0, |cache| cache.quota.bytes()),
            cache_bodies: cache.map_or(0, |cache| cache.bodies),
            cache_responses: cache.map_or(0, |cache| cache.responses),
            cache_hits: cache.map_or(0, |cache| cache.hits),
            cache_resets: cache.map_or(0, |cache| cache.resets),
            exits: counters.exits.by_name(),
            proxy,
            control,
            uptime_s: uptime.as_secs(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl HttpsStatus {
    fn of(https: &Https, connections: u64) -> Self {
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

impl From<https::BypassedHost> for BypassedHost {
    fn from(bypassed: https::BypassedHost) -> Self {
        Self {
            host: bypassed.host,
            why: bypassed.why.text().to_owned(),
            until: bypassed.until.since_epoch().as_secs(),
            one_program: bypassed.program.is_some(),
            program: bypassed.program_name,
        }
    }
}

const fn name(state: GatewayState) -> &'static str {
    match state {
        GatewayState::Connecting => "connecting",
        GatewayState::Open => "open",
        GatewayState::Stalled => "stalled",
        GatewayState::Down => "down",
    }
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

impl SessionStatus {
    fn of(session: &GatewaySession, upstream: &Upstream) -> Self {
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
