//! Timing of the direct fallback, and of giving up a request.
use std::time::Duration;

use longhaul_origin::FetchError;
use tokio::{sync::watch, time::Instant};

use super::{local::is_local_host, waiting_pages::Patience};
use crate::{
    gateway::Gateway,
    pages::Failure,
    trouble::{LoginPage, Trouble},
};

/// A request of plain http.
#[derive(Clone, Debug)]
pub(crate) struct PlainRequest {
    pub(crate) host: String,
    /// True for a GET or HEAD without credentials and without a body.
    pub(crate) is_bare: bool,
}

impl PlainRequest {
    /// True if the request may reach a login page at its host although nothing else goes direct. `is_permitted`: the user
    /// permits the host.
    fn may_reach_login(&self, is_permitted: bool) -> bool {
        is_local_host(&self.host) || is_permitted && self.is_bare
    }
}

/// Fallback clock of one request or tunnel. All waits are cancel safe.
#[derive(Debug)]
pub(crate) struct FallbackClock {
    gateway: Gateway,
    /// Silence after which the direct fallback is due; `None`: never.
    after: Option<Duration>,
    started: Instant,
    /// Error of the direct fetch, if it failed. It is tried once.
    failed: Option<FetchError>,
    /// True once only the gateway can answer.
    exhausted: watch::Sender<bool>,
    patience: Patience,
    /// Of a request of plain http, which a login page answers.
    plain: Option<PlainRequest>,
}

impl FallbackClock {
    pub(crate) fn start(gateway: Gateway, after: Option<Duration>) -> Self {
        Self {
            gateway,
            after,
            started: Instant::now(),
            failed: None,
            exhausted: watch::Sender::new(after.is_none()),
            patience: Patience::default(),
            plain: None,
        }
    }

    /// The clock of a request of plain http: a login page of the network may answer it at once. If the fallback is
    /// disabled, only the host that shows the login page is reached: any network can name any host, so it must be in the
    /// local network, or the user permits it and the request carries nothing that another host must not see.
    pub(crate) fn of_plain_http(self, request: PlainRequest) -> Self {
        Self {
            plain: Some(request),
            ..self
        }
    }

    /// True if a login page of the network may answer the request now.
    pub(crate) fn is_at_login_page(&self) -> bool {
        let view = self.gateway.view();
        view.login_page().is_some_and(|page| self.may_answer(page))
    }

    fn may_answer(&self, page: &LoginPage) -> bool {
        let Some(request) = &self.plain else {
            return false;
        };
        let is_permitted = self.gateway.is_login_permitted(&request.host);
        self.after.is_some() || page.host() == Some(&request.host) && request.may_reach_login(is_permitted)
    }

    /// True if the settings permit direct fetches.
    pub(crate) const fn permits_direct(&self) -> bool {
        self.after.is_some()
    }

    /// Records that the direct fetch failed.
    pub(crate) fn failed(&mut self, error: FetchError) {
        self.failed = Some(error);
        self.exhausted.send_replace(true);
    }

    /// Becomes true once only the gateway can answer: the fallback is disabled, or has failed.
    pub(crate) fn exhausted(&self) -> watch::Receiver<bool> {
        self.exhausted.subscribe()
    }

    /// Lets the request wait without a limit of time.
    pub(crate) fn patience(&self) -> Patience {
        self.patience.clone()
    }

    /// Waits until the gateway has been silent long enough for the direct fallback; never completes if the
    /// fallback is disabled or has failed.
    pub(crate) async fn until_due(&self) {
        if self.failed.is_some() {
            return std::future::pending().await;
        }
        let silence = async {
            match self.after {
                Some(time) => self.gateway.silent_for(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = silence => {}
            () = self.gateway.until_login_page(|page| self.may_answer(page)) => {}
        }
    }

    /// Waits until the request must fail, and returns the failure.
    pub(crate) async fn until_unavailable(&self) -> Failure {
        if self.after.is_some() && self.failed.is_none() {
            std::future::pending::<()>().await;
        }
        self.gateway.until_unavailable(self.started).await;
        if self.patience.is_unlimited() {
            self.gateway.until_refused().await;
        }
        match self.trouble() {
            Some(trouble) if trouble.is_refusal() => Failure::Refused(trouble),
            trouble => Failure::NoGateway {
                trouble,
                direct: self.failed.clone(),
            },
        }
    }

    /// Returns the failure of a direct fetch that ends the request.
    pub(crate) fn direct_failure(&self, error: FetchError) -> Failure {
        Failure::Direct {
            error,
            trouble: self.trouble(),
        }
    }

    /// What is wrong with the hop, if something is known.
    fn trouble(&self) -> Option<Trouble> {
        self.gateway.view().trouble().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_page_of_another_host_needs_permission_and_gets_no_credentials() {
        let reaches = |host: &str, is_bare, is_permitted| {
            let host = host.to_owned();
            PlainRequest { host, is_bare }.may_reach_login(is_permitted)
        };
        for (is_bare, is_permitted) in [(true, false), (false, false), (false, true)] {
            assert!(!reaches("victim.test", is_bare, is_permitted));
            assert!(!reaches("198.51.100.1", is_bare, is_permitted));
            assert!(
                reaches("192.168.1.1", is_bare, is_permitted)
                    && reaches("router.local", is_bare, is_permitted)
            );
        }
        assert!(reaches("victim.test", true, true));
    }
}
