//! The status for tools: `/status.json`. The changelog lists each key that gets another name.
mod entries;
mod hold_out;
mod savings;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

pub use entries::{BypassedHost, HttpsStatus, SessionStatus, TroubleStatus, WaitingStatus};
pub use hold_out::HoldOutStatus;
pub use savings::{KeptSavings, PeriodSavings, SavingsDays, SavingsStatus};

use crate::{
    gateway::{GatewaySession, GatewayState},
    handles::Handles,
    history::Summary,
    trouble::LoginPage,
    upstream::local::is_local_host,
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
    /// The highest rate of the link towards this computer that the current session has shown, bit/s; `null` if none is
    /// known. Times are estimated by it.
    #[serde(default)]
    pub link_rate_bps: Option<u64>,
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
    /// True if the host of the network's login page is reached only once the user permits it.
    #[serde(default)]
    pub login_page_waits: bool,
    /// Whether Longhaul is slower than direct connections, by kind of visit; empty without a session.
    #[serde(default)]
    pub hold_out: Vec<HoldOutStatus>,
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
    /// Techniques that are switched off for measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
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

impl Status {
    /// Returns the status of the agent with these components and addresses.
    pub(crate) fn of(
        handles: &Handles,
        kept: &Summary,
        proxy: SocketAddr,
        control: SocketAddr,
        uptime: Duration,
    ) -> Self {
        let Handles {
            upstream,
            storage,
            acceleration,
            counters,
            journal: _,
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
            link_rate_bps: Some(counters.link_rate.get()).filter(|rate| *rate > 0),
            http_proxy: upstream.http_proxy.as_ref().map(|proxy| proxy.url().to_string()),
            bytes_down: traffic.down,
            bytes_up: traffic.up,
            sessions: traffic.sessions,
            body_bytes_decoded: counters.body_bytes_decoded.get(),
            savings: SavingsStatus {
                saved,
                flows: totals.flows(),
                reported,
                kept: KeptSavings::of(kept),
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
            login_page_waits: upstream.rules.load().fallback_after.is_none()
                && view
                    .login_page()
                    .and_then(LoginPage::host)
                    .is_some_and(|host| !is_local_host(host) && !upstream.gateway.is_login_permitted(host)),
            hold_out: upstream
                .hold_out
                .regressions()
                .into_iter()
                .map(HoldOutStatus::of)
                .collect(),
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
            without: acceleration
                .without
                .iter()
                .map(|technique| technique.to_string())
                .collect(),
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

const fn name(state: GatewayState) -> &'static str {
    match state {
        GatewayState::Connecting => "connecting",
        GatewayState::Open => "open",
        GatewayState::Stalled => "stalled",
        GatewayState::Down => "down",
    }
}
