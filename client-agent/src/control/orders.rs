//! Orders to the running agent: changes that the commands and the dashboard request by POST with the token.
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use longhaul_types::ClientId;
use tokio::time::timeout;

use super::{Control, rules, text};
use crate::{
    dashboard::{
        CANCEL_WAITING, FORGET, FORGET_PAGE, HTTPS_BYPASS, HTTPS_FORGET, MEASURE, PERMIT_LOGIN,
        REMOVE_AUTHORITY, USE_INVITE,
    },
    forget::Site,
    gateway::GatewayState,
    host_name::HostName,
    https::BypassReason,
    proxy_body::ProxyBody,
    rules::RuleChange,
    state_dir::InviteError,
    upstream::WaitingPageId,
};

/// Maximum wait of a caller for the session with a new invite: a handshake on the slowest hops.
const SESSION_TIMEOUT: Duration = Duration::from_secs(15);

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Delete the data of a site, or all data, at both ends.
    Forget(Option<Site>),
    /// Delete a page of the journal, and its answers in the agent's cache.
    ForgetPage(u64),
    /// Use the invite of the state directory.
    UseInvite,
    /// Remove the device's certificate authority.
    RemoveAuthority,
    /// Forget why a host, or any host, is bypassed.
    ForgetBypasses(Option<HostName>),
    /// Let an accelerated host pass through for a while.
    Bypass(HostName),
    /// Give up a page that waits for the hop.
    CancelWaiting(WaitingPageId),
    /// Reach the host of the network's login page.
    PermitLogin,
    /// Change the user's rules for sites.
    ChangeRules(Vec<RuleChange>),
    /// Measure the link by a page of the journal.
    Measure(u64),
    /// An argument is invalid.
    Invalid(String),
}

impl Order {
    /// Returns the order of a request; `None` if it is none.
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        if *request.method() != Method::POST {
            return None;
        }
        let query = request.uri().query().unwrap_or_default();
        match request.uri().path() {
            FORGET => Some(argument(query, "site=").map_or_else(Self::Invalid, Self::Forget)),
            FORGET_PAGE => Some(match argument::<u64>(query, "number=") {
                Ok(Some(number)) => Self::ForgetPage(number),
                Ok(None) | Err(_) => {
                    Self::Invalid("give the number of a page of the journal as number=".to_owned())
                }
            }),
            HTTPS_FORGET => Some(argument(query, "host=").map_or_else(Self::Invalid, Self::ForgetBypasses)),
            HTTPS_BYPASS => Some(match argument::<HostName>(query, "host=") {
                Ok(Some(host)) => Self::Bypass(host),
                Ok(None) => Self::Invalid("give an accelerated host as host=".to_owned()),
                Err(error) => Self::Invalid(error),
            }),
            CANCEL_WAITING => Some(match argument::<u64>(query, "id=") {
                Ok(Some(id)) => Self::CancelWaiting(WaitingPageId(id)),
                Ok(None) | Err(_) => Self::Invalid("give the number of a waiting page as id=".to_owned()),
            }),
            MEASURE => Some(match argument::<u64>(query, "number=") {
                Ok(Some(number)) => Self::Measure(number),
                Ok(None) | Err(_) => {
                    Self::Invalid("give the number of a page of the journal as number=".to_owned())
                }
            }),
            PERMIT_LOGIN => Some(Self::PermitLogin),
            USE_INVITE => Some(Self::UseInvite),
            REMOVE_AUTHORITY => Some(Self::RemoveAuthority),
            path => rules::changes(path, query)
                .map(|changes| changes.map_or_else(Self::Invalid, Self::ChangeRules)),
        }
    }
}

fn argument<T: std::str::FromStr<Err: ToString>>(query: &str, name: &str) -> Result<Option<T>, String> {
    let given = query.strip_prefix(name).filter(|given| !given.is_empty());
    let parsed = given.map(str::parse).transpose();
    parsed.map_err(|error: T::Err| error.to_string())
}

impl Control {
    /// Carries an order out.
    pub(super) async fn carry_out(&self, order: Order) -> Response<ProxyBody> {
        match order {
            Order::Invalid(error) => text(StatusCode::BAD_REQUEST, error),
            Order::Forget(site) => {
                let done = self.deletions.forget(None, site.as_ref()).await;
                let what = site.map_or_else(|| "everything".to_owned(), |site| site.domain().to_owned());
                let rules = self.handles.upstream.site_rules.current();
                let stays = if rules.is_empty() {
                    ""
                } else {
                    "; your rules for sites stay (`longhaul-agent rules`)"
                };
                text(StatusCode::OK, format!("{what}: {done}{stays}"))
            }
            Order::ForgetPage(number) => self.forget_page(number).await,
            Order::Bypass(host) => self.bypass(&host),
            Order::CancelWaiting(id) => {
                if self.handles.upstream.waiting_pages.remove(id) {
                    text(StatusCode::OK, "the page waits no longer".to_owned())
                } else {
                    text(StatusCode::NOT_FOUND, "no page with this number waits".to_owned())
                }
            }
            Order::PermitLogin => match self.handles.upstream.gateway.permit_login_page() {
                Some(host) => text(
                    StatusCode::OK,
                    format!("{host} loads without the gateway, except what carries credentials"),
                ),
                None => text(StatusCode::NOT_FOUND, "no host shows a login page now".to_owned()),
            },
            Order::ChangeRules(changes) => self.change_rules(&changes).await,
            Order::Measure(number) => self.measure(number).await,
            Order::UseInvite => self.use_invite().await,
            Order::RemoveAuthority => self.remove_authority().await,
            Order::ForgetBypasses(host) => {
                let forgotten = self
                    .handles
                    .acceleration
                    .https
                    .forget_bypasses(host.as_ref())
                    .await;
                text(StatusCode::OK, forgotten)
            }
        }
    }

    /// Lets an accelerated host pass through, unread, for a while.
    fn bypass(&self, host: &HostName) -> Response<ProxyBody> {
        let (https, host) = (&self.handles.acceleration.https, host.to_string());
        if !https.accelerates(&host) {
            return text(StatusCode::CONFLICT, format!("{host} is not accelerated"));
        }
        https.bypass(&host, BypassReason::UsersChoice);
        let words = "passes through from its next connection on, and nobody on the way can read it";
        text(StatusCode::OK, format!("{host} {words}, for eight hours"))
    }

    /// Deletes a page of the journal, and its answers in the cache of the user who runs the agent.
    async fn forget_page(&self, number: u64) -> Response<ProxyBody> {
        let requests = self.handles.journal.requests();
        let of_page: Vec<_> = requests
            .iter()
            .filter(|request| request.page == Some(number))
            .collect();
        if of_page.is_empty() {
            return text(
                StatusCode::NOT_FOUND,
                "the journal has no page with this number".to_owned(),
            );
        }
        for request in of_page {
            self.handles
                .storage
                .store
                .invalidate(ClientId::OWNER, &request.url)
                .await;
        }
        self.handles.journal.forget_page(number).await;
        text(
            StatusCode::OK,
            "the page is forgotten on this computer".to_owned(),
        )
    }

    /// Moves the agent to the invite that `longhaul enroll` stored.
    async fn use_invite(&self) -> Response<ProxyBody> {
        if !self.is_enrolled_by_file {
            let words = "this agent's invite is a setting (`invite`), which comes before the state directory: change or \
                         remove the setting, then restart the agent";
            return text(StatusCode::CONFLICT, words.to_owned());
        }
        let state_dir = self.state_dir.clone();
        // File operations block.
        let read = tokio::task::spawn_blocking(move || state_dir.invite()).await;
        let invite = match read {
            Ok(Ok(invite)) => invite,
            Ok(Err(error)) => return refuse_invite(&error),
            Err(_) => return text(StatusCode::INTERNAL_SERVER_ERROR, "the agent stops".to_owned()),
        };
        let gateway = &self.handles.upstream.gateway;
        let Some(enrolment) = gateway.enrol(invite) else {
            return text(
                StatusCode::OK,
                "the running agent uses this enrolment already".to_owned(),
            );
        };
        let mut view = gateway.watch();
        let settled = view.wait_for(|view| {
            view.enrolment >= enrolment && (view.state == GatewayState::Open || view.is_refused())
        });
        let settled = timeout(SESSION_TIMEOUT, settled).await;
        let now = match settled {
            Ok(Ok(view)) if view.state == GatewayState::Open => {
                ", and its session with the gateway is open".to_owned()
            }
            Ok(_) | Err(_) => gateway.view().trouble().map_or_else(
                || "; it has no session with the gateway yet".to_owned(),
                |trouble| format!("; it has no session with the gateway yet: {trouble}"),
            ),
        };
        text(
            StatusCode::OK,
            format!("the running agent uses this enrolment now{now}"),
        )
    }

    async fn remove_authority(&self) -> Response<ProxyBody> {
        match self.handles.acceleration.https.remove_authority().await {
            Ok(words) => text(StatusCode::OK, words.to_owned()),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

fn refuse_invite(error: &InviteError) -> Response<ProxyBody> {
    text(StatusCode::CONFLICT, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_posts_to_their_paths() {
        let order = |method: &str, uri: &str| {
            Order::of(&Request::builder().method(method).uri(uri).body(()).unwrap())
        };
        assert_eq!(order("POST", "/forget"), Some(Order::Forget(None)));
        let site = Some("example.org".parse().unwrap());
        assert_eq!(
            order("POST", "/forget?site=www.example.org"),
            Some(Order::Forget(site))
        );
        assert!(matches!(
            order("POST", "/forget?site=a/b"),
            Some(Order::Invalid(_))
        ));
        let host = Some("a.test".parse().unwrap());
        assert_eq!(
            order("POST", "/https/forget?host=A.test"),
            Some(Order::ForgetBypasses(host))
        );
        assert!(matches!(
            order("POST", "/https/forget?host=a%20b"),
            Some(Order::Invalid(_))
        ));
        let host: HostName = "a.test".parse().unwrap();
        assert_eq!(
            order("POST", "/https/bypass?host=A.test"),
            Some(Order::Bypass(host))
        );
        assert!(matches!(order("POST", "/https/bypass"), Some(Order::Invalid(_))));
        let cancel = Some(Order::CancelWaiting(WaitingPageId(7)));
        assert_eq!(order("POST", "/waiting/cancel?id=7"), cancel);
        assert!(matches!(
            order("POST", "/waiting/cancel"),
            Some(Order::Invalid(_))
        ));
        assert_eq!(order("POST", "/page/forget?number=7"), Some(Order::ForgetPage(7)));
        assert!(matches!(
            order("POST", "/page/forget?number=x"),
            Some(Order::Invalid(_))
        ));
        assert_eq!(order("POST", "/measure?number=7"), Some(Order::Measure(7)));
        assert!(matches!(order("POST", "/measure"), Some(Order::Invalid(_))));
        assert_eq!(order("POST", "/ca/remove"), Some(Order::RemoveAuthority));
        assert_eq!(order("POST", "/invite/use"), Some(Order::UseInvite));
        for (method, uri) in [("GET", "/forget"), ("POST", "/pictures?level=low"), ("POST", "/")] {
            assert_eq!(order(method, uri), None, "{method} {uri}");
        }
    }
}
