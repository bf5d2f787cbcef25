//! Error pages for what is wrong with the hop.
use http::StatusCode;
use longhaul_origin::FetchError;
use longhaul_proxy::{ProxyError, Whose};

use super::{
    Page,
    failure::page as error_page,
    responsible::{AGENT, GATEWAY, LINK},
};
use crate::trouble::{Tried, Trouble};

const COMPUTER: &str = "This computer's network connection. The website and the gateway may be fine.";
const NAME_SERVERS: &str = "Most likely the network that this computer uses. The website may be fine.";
const INVITE: &str =
    "Most likely this device's invite, or the name servers of this network. The website may be fine.";
const DEVICE: &str =
    "Nobody's: the gateway's operator decides which devices it serves. The website may be fine.";

/// The words for one trouble.
struct Words {
    status: StatusCode,
    whose: &'static str,
    title: &'static str,
    what: &'static str,
    advice: &'static str,
}

/// Returns the page of a request that the gateway did not answer. `direct`: the error of the attempt to load it
/// without the gateway, if there was one.
pub(super) fn page(trouble: Option<&Trouble>, direct: Option<&FetchError>) -> Page {
    let words = words(trouble);
    let tried = match direct {
        None if trouble.is_some_and(Trouble::is_refusal) => String::new(),
        None => " Loading pages without the gateway is disabled or not due yet.".to_owned(),
        Some(error) => format!(" The agent also tried to load the page without the gateway: {error}."),
    };
    let detail = trouble.map_or_else(
        || "no answer yet".to_owned(),
        |trouble| format!("{}: {trouble}", trouble.kind()),
    );
    error_page(
        words.status,
        words.whose,
        words.title,
        &format!("{}{tried}", words.what),
        words.advice,
        detail,
    )
}

/// Returns the page of a direct fetch that failed because the website's name was not found, if the hop is a more
/// likely cause than the website: name servers of a network without Internet access deny every name.
pub(super) fn direct_page(error: &FetchError, trouble: Option<&Trouble>) -> Option<Page> {
    let trouble = trouble?;
    if !matches!(error, FetchError::DnsNotFound | FetchError::DnsFailed(_)) {
        return None;
    }
    Some(page(Some(trouble), Some(error)))
}

fn words(trouble: Option<&Trouble>) -> Words {
    const TIMEOUT: StatusCode = StatusCode::GATEWAY_TIMEOUT;
    const BAD_GATEWAY: StatusCode = StatusCode::BAD_GATEWAY;
    let Some(trouble) = trouble else {
        return silent(Tried::UDP);
    };
    match trouble {
        Trouble::CaptivePortal(_) => Words {
            status: TIMEOUT,
            whose: "The network that this computer uses. The website and the gateway may be fine.",
            title: "This network wants a login first",
            what: "The network answers in the place of other hosts, as a hotel or a train does before a login.",
            advice: "Open the address in the detail below, and log in. The agent connects by itself some seconds later.",
        },
        Trouble::Intercepted => Words {
            status: BAD_GATEWAY,
            whose: "The network that this computer uses. The website and the gateway may be fine.",
            title: "TLS to the gateway is intercepted",
            what: "Somebody on the way to the gateway ends TLS, and the settings of this computer do not permit that.",
            advice: "Use another network. With `carrier.pin = \"note\"` the agent uses such a network: what is intercepted is \
                     ciphertext.",
        },
        Trouble::Offline(_) => Words {
            status: TIMEOUT,
            whose: COMPUTER,
            title: "This computer is offline",
            what: "This computer has no connection to any network that leads to the gateway.",
            advice: "Check that the WLAN, the cable or the mobile connection is connected. The agent continues by itself as \
                     soon as there is a network.",
        },
        Trouble::NameLookupFailed(_) => Words {
            status: TIMEOUT,
            whose: NAME_SERVERS,
            title: "The gateway's name cannot be looked up",
            what: "This computer is connected to a network, but its name servers do not answer.",
            advice: "If this network has a login page, open it: `longhaul doctor` says whether it has one. Otherwise wait, \
                     or use another network.",
        },
        Trouble::NameNotFound(_) => Words {
            status: BAD_GATEWAY,
            whose: INVITE,
            title: "The gateway's name does not exist",
            what: "The name servers of this network do not know the gateway that this device is enrolled with.",
            advice: "Try another network. If the name is unknown there as well, ask the gateway's operator for a new invite.",
        },
        Trouble::Proxy(error) => proxy(error),
        Trouble::PortClosed(_) => Words {
            status: BAD_GATEWAY,
            whose: "The gateway: its computer answers, but the program does not run there. The website may be fine.",
            title: "The gateway does not run",
            what: "The gateway's computer answers that no program listens on the gateway's port.",
            advice: "Tell the gateway's operator. The agent connects by itself as soon as the gateway runs again.",
        },
        Trouble::Revoked => Words {
            status: BAD_GATEWAY,
            whose: DEVICE,
            title: "The gateway refuses this device: it was revoked",
            what: "The gateway's operator has revoked this device, so no page can be loaded through the gateway.",
            advice: "Ask the gateway's operator for a new invite, then run `longhaul enroll --replace LINE`.",
        },
        Trouble::InviteExpired => Words {
            status: BAD_GATEWAY,
            whose: DEVICE,
            title: "The gateway refuses this device: its invite expired",
            what: "The invite of this device was not used in time, so no page can be loaded through the gateway.",
            advice: "Ask the gateway's operator for a new invite, then run `longhaul enroll --replace LINE`.",
        },
        Trouble::NotEnrolled => Words {
            status: BAD_GATEWAY,
            whose: DEVICE,
            title: "The gateway refuses this device: it does not know it",
            what: "The gateway answers, but this device is not in its list, so no page can be loaded through it.",
            advice: "Ask the gateway's operator for a new invite, then run `longhaul enroll --replace LINE`.",
        },
        Trouble::GatewayDraining => Words {
            status: StatusCode::SERVICE_UNAVAILABLE,
            whose: GATEWAY,
            title: "The gateway is about to end",
            what: "Its operator ends the gateway, for example for an update. It opens no more sessions until it runs again.",
            advice: "Reload in some minutes. If it still does not answer, ask the gateway's operator.",
        },
        Trouble::GatewayFull => Words {
            status: StatusCode::SERVICE_UNAVAILABLE,
            whose: GATEWAY,
            title: "The gateway refuses this device: it has too many sessions",
            what: "The gateway serves as many devices as its operator permits.",
            advice: "Wait a moment and reload. If it happens again, tell the gateway's operator.",
        },
        Trouble::VersionMismatch(_) => Words {
            status: BAD_GATEWAY,
            whose: "Agent and gateway are too far apart in their versions. The website may be fine.",
            title: "The gateway refuses this device: the versions do not fit",
            what: "The agent on this computer and the gateway have no common protocol version.",
            advice: "Update the older one of the two programs; the detail below names the versions.",
        },
        Trouble::TakenOver => Words {
            status: BAD_GATEWAY,
            whose: "Nobody's: two computers use the same invite. The website may be fine.",
            title: "Another computer uses this device's invite",
            what: "Another computer or program opened a session with this device's key, and a device has only one session.",
            advice: "Stop the agent on the other computer, or ask the gateway's operator for a second invite.",
        },
        Trouble::LocalError(_) => Words {
            status: BAD_GATEWAY,
            whose: AGENT,
            title: "This computer cannot send to the gateway",
            what: "The operating system refuses to open a connection to the gateway.",
            advice: "Let the firewall of this computer permit the agent to send, and close programs if too many files are \
                     open; the detail below has the system's error. Then restart the agent.",
        },
        Trouble::SessionEnded(_) => Words {
            title: "The connection to the gateway ended",
            what: "The session with the gateway ended, and no new one could be opened.",
            ..silent(Tried::UDP)
        },
        Trouble::ClockOff(_) => silent(Tried::UDP),
        Trouble::Silent(tried) => silent(*tried),
    }
}

/// The words for what an HTTP proxy refuses; the detail says more.
pub(super) const fn proxy_whose(error: &ProxyError) -> &'static str {
    match error.whose() {
        Whose::Settings => {
            "Most likely the settings of the agent on this computer. The website and the gateway may be fine."
        }
        Whose::Administrator => {
            "The HTTP proxy of this network: its administrator decides where it connects. The website may be fine."
        }
        Whose::Destination => "What is behind the HTTP proxy of this network. The proxy itself works.",
    }
}

const fn proxy(error: &ProxyError) -> Words {
    Words {
        status: StatusCode::BAD_GATEWAY,
        whose: proxy_whose(error),
        title: "The HTTP proxy of this network opens no connection to the gateway",
        what: "UDP does not reach the gateway from here, and the proxy that the agent is set to use does not help.",
        advice: "The detail below says what to do. `longhaul-agent check-gateway` tries again.",
    }
}

const fn silent(tried: Tried) -> Words {
    Words {
        status: StatusCode::GATEWAY_TIMEOUT,
        whose: LINK,
        title: "The gateway does not answer",
        what: "The agent on this computer cannot reach its gateway.",
        advice: match (tried.tls, tried.quic) {
            (None, None) => {
                "Check that this computer is online and reload. If other programs can reach the Internet, the network may \
                 block UDP, or the gateway is down: tell its operator. `longhaul doctor` looks for the cause."
            }
            (Some(_), _) | (None, Some(_)) => {
                "Check that this computer is online and reload. If other programs can reach the Internet, the gateway is \
                 down, or this network lets neither UDP nor the gateway's TLS and QUIC ports through: tell its operator. \
                 `longhaul doctor` looks for the cause."
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use longhaul_origin::DnsFailure;

    use super::*;

    #[test]
    fn each_page_names_the_party_at_fault() {
        for (trouble, status, title, whose) in [
            (Trouble::Offline("x".to_owned()), 504, "offline", "This computer"),
            (Trouble::Silent(Tried::UDP), 504, "does not answer", "link"),
            (
                Trouble::PortClosed(Tried::UDP),
                502,
                "does not run",
                "The gateway",
            ),
            (Trouble::Revoked, 502, "revoked", "operator"),
            (Trouble::InviteExpired, 502, "expired", "operator"),
            (Trouble::NotEnrolled, 502, "does not know", "operator"),
            (
                Trouble::NameNotFound("gw".to_owned()),
                502,
                "does not exist",
                "invite",
            ),
            (
                Trouble::NameLookupFailed("x".to_owned()),
                504,
                "looked up",
                "network",
            ),
            (Trouble::GatewayDraining, 503, "about to end", "gateway"),
            (Trouble::GatewayFull, 503, "too many sessions", "gateway"),
        ] {
            let page = page(Some(&trouble), None);
            assert_eq!(page.status.as_u16(), status, "{trouble:?}");
            assert!(page.title.contains(title), "{page:?}");
            assert!(page.whose.contains(whose), "{page:?}");
            assert!(page.detail.starts_with(trouble.kind()), "{page:?}");
            assert!(!page.whose.contains("Longhaul is working"), "{page:?}");
        }
    }

    #[test]
    fn a_name_that_is_not_found_while_the_hop_is_broken_is_not_the_websites_fault() {
        for error in [FetchError::DnsNotFound, FetchError::DnsFailed(DnsFailure::Local)] {
            let offline = Trouble::Offline("no route".to_owned());
            let page = direct_page(&error, Some(&offline)).unwrap();
            assert_eq!(page.title, "This computer is offline");
            assert!(page.what.contains("without the gateway"), "{page:?}");
            assert_eq!(direct_page(&error, None), None);
        }
        assert_eq!(
            direct_page(&FetchError::Refused, Some(&Trouble::Silent(Tried::UDP))),
            None
        );
    }
}
