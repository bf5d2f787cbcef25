//! The look for a captive portal: a login page that a network answers in the place of other hosts.
//!
//! One plain HTTP request goes to port 80 of the gateway's own host, so that nobody else learns of it. Most
//! gateways have no server there, and then nothing answers; a portal answers every request of port 80 with a
//! redirect to itself (RFC 8952 section 2), or with 511 (RFC 6585). A portal that neither redirects nor says 511
//! stays unnoticed, unless `--portal-url` names a page that answers 204, as operating systems use it.
use std::{io, sync::mpsc, thread, time::Duration};

use url::Url;

use super::facts::Portal;
use crate::http_get::{self, Response};

/// Time for the whole look: a portal is in the local network.
const LOOK_TIME: Duration = Duration::from_secs(3);
/// Time for each of its steps.
const STEP_TIME: Duration = Duration::from_secs(1);

/// The answer of a host without a portal before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Any answer of the host itself.
    Anything,
    /// 204 without a body.
    NoContent,
}

/// Looks at port 80 of the gateway's host. `gateway` is `HOST:PORT`.
pub(super) fn of_gateway(gateway: &str) -> Portal {
    let host = gateway.rsplit_once(':').map_or(gateway, |(host, _)| host);
    match Url::parse(&format!("http://{host}/")) {
        Ok(url) => look(&url, Expected::Anything),
        Err(_) => Portal::NotLookedFor,
    }
}

/// Requests a URL and judges the answer.
pub(super) fn look(url: &Url, expected: Expected) -> Portal {
    let asked = url.to_string();
    let (sender, receiver) = mpsc::channel();
    let url = url.clone();
    let requested = url.clone();
    // A name lookup of the system has no limit of its own.
    thread::spawn(move || drop(sender.send(request(&requested))));
    match receiver.recv_timeout(LOOK_TIME) {
        Ok(Ok(response)) => judge(&url, &response, expected),
        Ok(Err(_)) | Err(_) => Portal::NotFound { asked },
    }
}

fn request(url: &Url) -> io::Result<Response> {
    let addresses = url.socket_addrs(|| None)?;
    let address = addresses.first().ok_or(io::ErrorKind::NotFound)?;
    let host = url.host_str().unwrap_or_default();
    let host = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    http_get::get(*address, &host, url.path(), None, STEP_TIME)
}

fn judge(url: &Url, response: &Response, expected: Expected) -> Portal {
    /// RFC 6585 section 6: Network Authentication Required.
    const LOGIN_REQUIRED: u16 = 511;
    let asked = url.to_string();
    let page = response
        .location
        .as_ref()
        .and_then(|target| url.join(target).ok());
    let leads_away = (300..400).contains(&response.status)
        && page
            .as_ref()
            .is_some_and(|page| page.host_str() != url.host_str());
    let is_found = response.status == LOGIN_REQUIRED
        || leads_away
        || expected == Expected::NoContent && response.status != 204;
    if is_found {
        let page = page.map(String::from);
        Portal::Found { asked, page }
    } else {
        Portal::NotFound { asked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, location: Option<&str>, expected: Expected) -> Portal {
        let url = Url::parse("http://gw.test/").unwrap();
        let response = Response {
            status,
            location: location.map(str::to_owned),
            body: String::new(),
        };
        judge(&url, &response, expected)
    }

    #[test]
    fn a_redirect_to_another_host_is_a_portal_and_the_hosts_own_answer_is_none() {
        let found =
            |status, location, expected| matches!(judged(status, location, expected), Portal::Found { .. });
        assert!(found(
            302,
            Some("http://login.hotel.test/?from=x"),
            Expected::Anything
        ));
        assert!(found(511, None, Expected::Anything));
        for (status, location) in [
            (301, Some("https://gw.test/")),
            (302, Some("/login")),
            (200, None),
            (404, None),
        ] {
            assert!(
                !found(status, location, Expected::Anything),
                "{status} {location:?}"
            );
            assert!(
                found(status, location, Expected::NoContent),
                "{status} {location:?}"
            );
        }
        assert!(!found(204, None, Expected::NoContent));
        let Portal::Found { page, .. } = judged(302, Some("http://login.test/a"), Expected::Anything) else {
            panic!("a portal");
        };
        assert_eq!(page.as_deref(), Some("http://login.test/a"));
    }
}
