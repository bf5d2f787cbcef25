//! What became of a request: delivered, missing, failed or unfinished.
use std::collections::BTreeSet;

use longhaul_loader::Outcome;

use crate::response::{ProxyError, Response};

/// Why a request ended without a whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The network stack's error, such as `net::ERR_CONNECTION_RESET`.
    pub(crate) error: String,
    /// What the browser objected to.
    pub(crate) blocked: Option<String>,
    /// The page or the browser gave it up itself.
    pub(crate) canceled: bool,
}

/// All that is known of an ended request.
#[derive(Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) host: &'a str,
    pub(crate) response: Option<&'a Response>,
    /// The status on the wire, where it differs from the response's or none was shown to the page.
    pub(crate) status: Option<u16>,
    pub(crate) failure: Option<&'a Failure>,
}

impl Ended<'_> {
    /// The outcome, by these rules in this order.
    ///
    /// 1. An error status or failure for a host of which the caller says that it does not exist is `Missing`: behind a
    ///    proxy the browser itself cannot tell (a tunnel that is refused is `ERR_TUNNEL_CONNECTION_FAILED` whatever the
    ///    reason, and the response to `CONNECT` is never shown).
    /// 2. `ERR_NAME_NOT_RESOLVED` is `Missing`.
    /// 3. An error status that a proxy made (`Proxy-Status`, `X-Squid-Error`) is `Missing` if it says that the name
    ///    does not exist, else `Failed`.
    /// 4. Any other status from 400 is the origin's: `Missing`, also if the browser then objected to the body (an HTML
    ///    error page in place of another site's image).
    /// 5. A request that page or browser gave up once its response had begun (a video of which the metadata sufficed)
    ///    is `Unfinished`: nobody failed.
    /// 6. Any other failure is `Failed`, the rest `Delivered`.
    pub(crate) fn outcome(&self, absent: &BTreeSet<String>) -> Outcome {
        let status = self
            .status
            .or_else(|| self.response.map(|response| response.status));
        let refused = status.filter(|status| *status >= 400);
        let failed = self.failure.is_some() || refused.is_some();
        if failed && absent.contains(self.host) {
            return Outcome::Missing;
        }
        let error = self.failure.map_or("", |failure| &failure.error);
        if error.contains("ERR_NAME_NOT_RESOLVED") {
            return Outcome::Missing;
        }
        if let Some(status) = refused {
            let proxy = self.response.and_then(|response| response.proxy_error.as_ref());
            return match proxy {
                None | Some(ProxyError::NoSuchName) => Outcome::Missing,
                Some(ProxyError::Other(words)) => Outcome::Failed(format!("status {status} ({words})")),
            };
        }
        match self.failure {
            None => Outcome::Delivered,
            Some(failure) if failure.canceled && status.is_some() => Outcome::Unfinished,
            Some(failure) => Outcome::Failed(failure.words()),
        }
    }
}

impl Failure {
    fn words(&self) -> String {
        let mut words = self.error.clone();
        if let Some(blocked) = &self.blocked {
            words.push_str(", blocked: ");
            words.push_str(blocked);
        }
        if self.canceled {
            words.push_str(", given up before a response");
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(error: &str, canceled: bool) -> Failure {
        Failure {
            error: error.to_owned(),
            blocked: None,
            canceled,
        }
    }

    fn response(status: u16, proxy_error: Option<ProxyError>) -> Response {
        Response {
            status,
            proxy_error,
            ..Response::default()
        }
    }

    fn judge(response: Option<&Response>, status: Option<u16>, failure: Option<&Failure>) -> Outcome {
        let ended = Ended {
            host: "site.test",
            response,
            status,
            failure,
        };
        ended.outcome(&BTreeSet::new())
    }

    #[test]
    fn origins_errors_are_missing_and_proxies_errors_are_failures() {
        assert_eq!(judge(Some(&response(404, None)), None, None), Outcome::Missing);
        assert_eq!(judge(Some(&response(502, None)), None, None), Outcome::Missing);
        let made = response(
            502,
            Some(ProxyError::Other("longhaul; details=\"reset\"".to_owned())),
        );
        assert!(matches!(judge(Some(&made), None, None), Outcome::Failed(_)));
        let unknown = response(502, Some(ProxyError::NoSuchName));
        assert_eq!(judge(Some(&unknown), None, None), Outcome::Missing);
        let objected = failure("net::ERR_BLOCKED_BY_ORB", false);
        assert_eq!(judge(None, Some(404), Some(&objected)), Outcome::Missing);
        assert!(matches!(
            judge(None, Some(200), Some(&objected)),
            Outcome::Failed(_)
        ));
    }

    #[test]
    fn names_that_do_not_exist_are_missing() {
        assert_eq!(
            judge(None, None, Some(&failure("net::ERR_NAME_NOT_RESOLVED", false))),
            Outcome::Missing
        );
        let tunnel = failure("net::ERR_TUNNEL_CONNECTION_FAILED", false);
        assert!(matches!(judge(None, None, Some(&tunnel)), Outcome::Failed(_)));
        let ended = Ended {
            host: "gone.test",
            response: None,
            status: None,
            failure: Some(&tunnel),
        };
        assert_eq!(
            ended.outcome(&BTreeSet::from(["gone.test".to_owned()])),
            Outcome::Missing
        );
    }

    #[test]
    fn what_is_given_up_half_way_is_unfinished() {
        let given_up = failure("net::ERR_ABORTED", true);
        assert_eq!(
            judge(Some(&response(200, None)), None, Some(&given_up)),
            Outcome::Unfinished
        );
        assert!(matches!(judge(None, None, Some(&given_up)), Outcome::Failed(_)));
    }
}
