//! The status as tools read it: `/status.json`. Keys are only ever added.
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    config::Fallback,
    https::Accelerate,
    request::Context,
    session::{GatewayState, Hop},
};

/// The contents of `/status.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `connecting`, `open`, `stalled` or `down`.
    pub state: String,
    /// Why there is no session, in words; `null` while there is one.
    pub reason: Option<String>,
    /// For how long the gateway has been silent although an answer is due, s; `null` while all is well.
    pub silent_s: Option<f64>,
    /// The gateway's public key.
    pub gateway_key: String,
    /// The gateway's software, once it has said so.
    pub gateway_software: Option<String>,
    /// The session, while there is one.
    pub session: Option<SessionStatus>,
    /// Bytes received on the hop in all sessions, headers of IP and UDP included.
    pub bytes_down: u64,
    /// Bytes sent on the hop in all sessions, headers of IP and UDP included.
    pub bytes_up: u64,
    /// Sessions that were open.
    pub sessions: u64,
    /// Verified body bytes handed to browsers, decoded.
    pub body_bytes_decoded: u64,
    /// Decoded body bytes and tunnelled bytes less all bytes of the hop in both directions; 0 where that is negative.
    pub bytes_saved: u64,
    /// Body bytes taken from browsers.
    pub upload_bytes: u64,
    /// Raw bytes of tunnels, both directions.
    pub tunnel_bytes: u64,
    /// Requests of browsers, CONNECT included.
    pub requests: u64,
    /// Requests that ended in an error page or a broken connection.
    pub failures: u64,
    /// Tunnels opened.
    pub tunnels: u64,
    /// Requests and tunnels that went around the gateway.
    pub direct_requests: u64,
    /// Whether requests go around the gateway right now.
    pub direct_in_use: bool,
    /// Requests repeated in another session or outside early data.
    pub repeated: u64,
    /// Windows of bodies that did not match their hash.
    pub windows_bad: u64,
    /// Bodies asked for again from an offset.
    pub resumed: u64,
    /// Bodies that broke off before their end.
    pub truncated: u64,
    /// Whether the gateway pushes what pages need.
    pub push_enabled: bool,
    /// Page loads begun.
    pub pages: u64,
    /// What manifests announced.
    pub announced: u64,
    /// Bytes of pushed bodies on the hop, coded.
    pub pushed_bytes: u64,
    /// Pushed bodies that are complete.
    pub pushed_objects: u64,
    /// Of `pushed_bytes`, those of bodies that browsers took.
    pub push_taken_bytes: u64,
    /// Pushed bodies that browsers took.
    pub push_taken_objects: u64,
    /// Of `pushed_bytes`, those of bodies that no browser had taken when their page load ended.
    pub push_wasted_bytes: u64,
    /// Decoded bytes of pushed bodies that are in memory now.
    pub push_memory_bytes: u64,
    /// Bodies pushed again: damaged, or not held although the gateway thought so.
    pub push_wanted: u64,
    /// Manifests kept for the next load of their page.
    pub manifests_kept: u64,
    /// Bodies that came from the cache since the gateway said that they have not changed.
    pub held_hits: u64,
    /// Bodies that were coded against another one, which is held.
    pub bases_used: u64,
    /// Bodies that were coded against a dictionary, which every agent has.
    pub dictionaries_used: u64,
    /// Bodies that were coded against one that is not held, and were asked for again.
    pub bases_missing: u64,
    /// What HTTPS is accelerated.
    pub https: HttpsStatus,
    /// How near to the original pictures are: `original`, `high`, `medium`, `low` or `text`.
    pub image_level: String,
    /// Bytes in the cache.
    pub cache_bytes: u64,
    /// How many there may be; 0 without a cache.
    pub cache_quota: u64,
    /// Bodies that were asked of the cache and were there.
    pub cache_hits: u64,
    /// How often the cache lost everything: a damaged file, a full disk.
    pub cache_resets: u64,
    /// How often requests left a phase, by phase and reason.
    pub exits: BTreeMap<String, u64>,
    /// Where browsers connect.
    pub proxy: SocketAddr,
    /// The control port.
    pub control: SocketAddr,
    /// Since the agent's start, s.
    pub uptime_s: u64,
    /// The agent's version.
    pub version: String,
}

/// What HTTPS is accelerated, which the gateway then reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HttpsStatus {
    /// `off`, `list` or `all`.
    pub accelerate: String,
    /// The hosts, where only those of a list are.
    pub hosts: Vec<String>,
    /// Hosts that never are.
    pub except: Vec<String>,
    /// SHA-256 of this device's authority, which browsers must trust; `null` while nothing is accelerated.
    pub fingerprint: Option<String>,
    /// Connections accelerated so far.
    pub connections: u64,
    /// Hosts that are left alone for a while, and why.
    pub spared: Vec<SparedHost>,
}

/// A host that is left alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SparedHost {
    /// Its name.
    pub host: String,
    /// Why, in words.
    pub why: String,
    /// Until when, seconds since 1970.
    pub until: u64,
}

/// One session, as its transport sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Smoothed round-trip time, ms.
    pub rtt_ms: f64,
    /// Smallest round-trip time seen lately, ms; `null` while none is measured.
    pub min_rtt_ms: Option<f64>,
    /// Estimated rate of the link towards this computer, bit/s; `null` while it is not known.
    pub rate_bps: Option<u64>,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// How often the session stalled.
    pub stalls: u64,
}

impl Status {
    pub(super) fn of(context: &Context, control: SocketAddr, uptime: Duration) -> Self {
        let view = context.gateway.view();
        let traffic = context.gateway.traffic();
        let counters = &context.counters;
        let cache = context.store.usage();
        let cache = cache.as_ref();
        let silent = view.silent_since.map(|since| since.elapsed());
        let carried =
            counters.body_bytes_decoded.get() + counters.tunnel_bytes.get() + counters.upload_bytes.get();
        Self {
            state: name(view.state).to_owned(),
            reason: view.why.as_ref().map(ToString::to_string),
            silent_s: silent.map(|silent| silent.as_secs_f64()),
            gateway_key: context.gateway.key().to_string(),
            gateway_software: view
                .hop
                .as_ref()
                .and_then(|hop| hop.welcome())
                .map(|welcome| welcome.software),
            session: view.hop.as_deref().map(SessionStatus::of),
            bytes_down: traffic.down,
            bytes_up: traffic.up,
            sessions: traffic.sessions,
            body_bytes_decoded: counters.body_bytes_decoded.get(),
            bytes_saved: carried.saturating_sub(traffic.down + traffic.up),
            upload_bytes: counters.upload_bytes.get(),
            tunnel_bytes: counters.tunnel_bytes.get(),
            requests: counters.requests.get(),
            failures: counters.failures.get(),
            tunnels: counters.tunnels.get(),
            direct_requests: counters.direct_requests.get(),
            direct_in_use: match (context.fallback, silent) {
                (Fallback::After(time), Some(silent)) => silent >= time,
                (Fallback::After(_) | Fallback::Never, _) => false,
            },
            repeated: counters.repeated.get(),
            windows_bad: counters.windows_bad.get(),
            resumed: counters.resumed.get(),
            truncated: counters.truncated.get(),
            push_enabled: context.push.enabled,
            pages: counters.pages.get(),
            announced: counters.announced.get(),
            pushed_bytes: counters.pushed_bytes.get(),
            pushed_objects: counters.pushed_objects.get(),
            push_taken_bytes: counters.push_taken_bytes.get(),
            push_taken_objects: counters.push_taken_objects.get(),
            push_wasted_bytes: counters.push_wasted_bytes.get(),
            push_memory_bytes: context.loads.memory_used(),
            push_wanted: counters.wanted.get(),
            manifests_kept: counters.manifests_kept.get(),
            held_hits: counters.held_hits.get(),
            bases_used: counters.bases_used.get(),
            dictionaries_used: counters.dictionaries_used.get(),
            bases_missing: counters.bases_missing.get(),
            https: HttpsStatus::of(context),
            image_level: context.pictures.level().name().to_owned(),
            cache_bytes: cache.map_or(0, |cache| cache.bytes.bytes()),
            cache_quota: cache.map_or(0, |cache| cache.quota.bytes()),
            cache_hits: cache.map_or(0, |cache| cache.hits),
            cache_resets: cache.map_or(0, |cache| cache.resets),
            exits: counters.exits.by_name(),
            proxy: context.proxy,
            control,
            uptime_s: uptime.as_secs(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl HttpsStatus {
    fn of(context: &Context) -> Self {
        let settings = context.https.settings();
        let (accelerate, hosts) = match &settings.accelerate {
            Accelerate::Off => ("off", Vec::new()),
            Accelerate::Only(hosts) => ("list", hosts.clone()),
            Accelerate::All => ("all", Vec::new()),
        };
        let spared = context.https.spared();
        Self {
            accelerate: accelerate.to_owned(),
            hosts,
            except: settings.except.clone(),
            fingerprint: context.https.fingerprint(),
            connections: context.counters.accelerated.get(),
            spared: spared
                .into_iter()
                .map(|spared| SparedHost {
                    host: spared.host,
                    why: spared.why.text().to_owned(),
                    until: spared.until.since_epoch().as_secs(),
                })
                .collect(),
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

impl SessionStatus {
    fn of(hop: &Hop) -> Self {
        let stats = hop.stats();
        Self {
            rtt_ms: stats.srtt.as_secs_f64() * 1000.0,
            min_rtt_ms: stats.min_rtt.map(|rtt| rtt.as_secs_f64() * 1000.0),
            rate_bps: Some(stats.receive_rate.as_bps()).filter(|rate| *rate > 0),
            packets_sent: stats.packets_sent,
            packets_received: stats.packets_received,
            stalls: stats.stalls,
        }
    }
}
