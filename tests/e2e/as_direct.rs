//! Programs get through the pair what they get from the origin directly: statuses, content codings, ranges, broken bodies,
//! requests whose body waits, half-closed connections, and upgrades. Each request is sent both ways, and the responses are compared.
use std::{collections::BTreeMap, net::SocketAddr};

use anyhow::{Context, Result};
use longhaul_tests::{
    client::{Ending, RawClient, RawResponse, ask, request},
    raw_origin::{Kept, RawOrigin},
};

use tokio::net::TcpListener;

use crate::{
    content::prose,
    pair::{Pair, Setup},
};

mod codings;
mod expectations;
mod half_closed;
mod statuses;
mod upgrades;

/// Fields that both ways must have in common.
const COMPARED: [&str; 12] = [
    "accept-ranges",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-length",
    "content-md5",
    "content-range",
    "content-type",
    "etag",
    "last-modified",
    "repr-digest",
    "x-own",
];

/// The origin `site.test`, directly, through a pair, and through the gateway's proxy for clients without an agent.
struct BothWays {
    origin: RawOrigin,
    pair: Pair,
    clientless: SocketAddr,
}

impl BothWays {
    async fn start(answer: impl Fn(Kept<'_>) -> Vec<u8> + Send + Sync + 'static) -> Result<Self> {
        let origin = RawOrigin::start_kept(answer).await?;
        let (pair, clientless) = pair_with_clientless(origin.address()).await?;
        Ok(Self {
            origin,
            pair,
            clientless,
        })
    }

    async fn direct(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Result<RawResponse> {
        let text = request(method, "http://site.test/", fields).replacen("http://site.test/", path, 1);
        one(self.origin.address(), method, &text).await
    }

    async fn through(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Result<RawResponse> {
        let text = request(method, &format!("http://site.test{path}"), fields);
        one(self.pair.proxy(), method, &text).await
    }

    /// Sends a request all ways, and by the proxies once more; what comes must be equal.
    async fn compare(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Result<RawResponse> {
        let direct = self.direct(method, path, fields).await?;
        let text = request(method, &format!("http://site.test{path}"), fields);
        for proxy in [self.pair.proxy(), self.clientless].repeat(2) {
            let through = one(proxy, method, &text).await?;
            let is_agent = proxy == self.pair.proxy();
            let about = || format!("{method} {path} {fields:?}, agent: {is_agent}\n{direct:?}\n{through:?}");
            assert_eq!(through.status, direct.status, "{}", about());
            assert_eq!(through.ending, direct.ending, "{}", about());
            assert!(through.body == direct.body, "{}", about());
            assert_eq!(compared(&through), compared(&direct), "{}", about());
        }
        Ok(direct)
    }
}

/// A pair whose gateway also serves clients without an agent, at this address.
async fn pair_with_clientless(origin: SocketAddr) -> Result<(Pair, SocketAddr)> {
    let clientless = TcpListener::bind(("127.0.0.1", 0)).await?.local_addr()?;
    let mut setup = Setup::resolving(&[("site.test", origin)]);
    setup.gateway_config.push_str(&format!(
        "[clientless]\nlisten = \"{clientless}\"\nallow = [\"127.0.0.0/8\"]\n"
    ));
    Ok((Pair::start(setup).await?, clientless))
}

async fn one(to: SocketAddr, method: &str, text: &str) -> Result<RawResponse> {
    if method != "HEAD" {
        return ask(to, text).await;
    }
    let mut client = RawClient::connect(to).await?;
    client.send(text).await?;
    client.head().await
}

fn compared(response: &RawResponse) -> BTreeMap<&'static str, Vec<&str>> {
    // Caches send no fields that describe the body of another response (RFC 9110 section 15.4.5).
    let names = if response.status == 304 {
        &["etag"][..]
    } else {
        &COMPARED
    };
    let fields = names.iter().map(|name| (*name, response.all(name)));
    fields.filter(|(_, values)| !values.is_empty()).collect()
}
