//! The ways from the agent to origins: the gateway session, direct fetches while no gateway answers, and hosts of the local
//! network.
pub mod direct;
mod fallback_clock;
pub mod local;
mod waiting_pages;
mod working_hosts;

use std::time::Duration;

use arc_swap::ArcSwap;
use longhaul_origin::OriginClient;
use longhaul_proxy::HttpProxy;

pub(crate) use fallback_clock::{FallbackClock, PlainRequest};
pub(crate) use local::Asker;
pub(crate) use waiting_pages::{PageKey, WaitingPage, WaitingPageId, WaitingPageState};
pub use waiting_pages::{Queue, WaitingPages};
pub use working_hosts::WorkingHosts;

use crate::{
    gateway::{Certificates, Gateway},
    holdout::HoldOut,
    rules::SiteRules,
};

/// Settings of the ways to origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamRules {
    /// Silence of the gateway after which requests are sent directly; `None`: never.
    pub fallback_after: Option<Duration>,
    /// True if requests with cookies may be sent in early data.
    pub allows_early_cookies: bool,
    /// What browsers get while the hop is away.
    pub away: AwayRules,
}

/// Settings of pages that wait for the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwayRules {
    /// Silence of the gateway after which a navigation is answered with a page that says so; `None`: never.
    pub page_after: Option<Duration>,
    /// What happens to a page whose tab is closed.
    pub queue: Queue,
}

/// Handle of the ways to origins.
#[derive(Debug)]
pub struct Upstream {
    /// The gateway session.
    pub gateway: Gateway,
    /// HTTP client for direct fetches.
    pub direct: OriginClient,
    /// HTTP client for hosts of this computer and of its network.
    pub local: OriginClient,
    /// HTTP client for what detects a login page of the network, and for that page.
    pub at_portal: OriginClient,
    /// The certificates that TLS to the gateway has shown.
    pub certificates: Certificates,
    /// TCP port of the gateway for the carrier `tls`.
    pub tls_port: u16,
    /// HTTP proxy of this network, for TLS to the gateway and for direct fetches.
    pub http_proxy: Option<HttpProxy>,
    /// Settings that may change while the agent runs; a request keeps those with which it began.
    pub rules: ArcSwap<UpstreamRules>,
    /// The user's rules for sites.
    pub site_rules: SiteRules,
    /// Which visits go direct, to compare their times.
    pub hold_out: HoldOut,
    /// Hosts to which tunnels were opened recently.
    pub working_hosts: WorkingHosts,
    /// Pages that wait for the hop.
    pub waiting_pages: WaitingPages,
}

impl Upstream {
    /// True if connections to a host go direct because the user has paused it.
    pub(crate) fn goes_direct(&self, host: &str) -> bool {
        self.rules.load().fallback_after.is_some() && self.site_rules.is_paused(host)
    }

    /// True if visits of a host may go direct to compare their times: the settings permit direct connections, the user has
    /// no rule for the host's https, and no HTTP proxy or login page of the network is in the way.
    pub(crate) fn permits_hold_out(&self, host: &str) -> bool {
        let view = self.gateway.view();
        self.rules.load().fallback_after.is_some()
            && self.http_proxy.is_none()
            && view.login_page().is_none()
            && self.site_rules.current().https(host).is_none()
    }

    /// Starts the fallback clock of a request or tunnel.
    pub(crate) fn fallback_clock(&self) -> FallbackClock {
        FallbackClock::start(self.gateway.clone(), self.rules.load().fallback_after)
    }
}
