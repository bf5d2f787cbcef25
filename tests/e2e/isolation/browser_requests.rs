//! Requests with the fields of a browser: navigations, and subresources of pages of several sites.
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use longhaul_tests::{
    authority::TestAuthority,
    client::{ask, get},
    origin::Origin,
};

use crate::{
    https::Accelerated,
    pair::{Pair, Setup},
};

/// The initiator of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Initiator<'a> {
    /// The user navigates to a page.
    User,
    /// A link in a page of this host.
    Link(&'a str),
    /// A script element in a page of this host.
    Page(&'a str),
    /// A script of a page of this host, which calls `fetch()` with `Accept: text/html`.
    Fetch(&'a str),
    /// A page that sends no referrer.
    NoReferrer,
}

/// A pair with an origin for all hosts, over http or over accelerated https.
pub(super) enum PairOver {
    Http(Pair),
    Https(Accelerated),
}

impl PairOver {
    /// A pair that resolves these hosts to the origin.
    pub(super) async fn http(hosts: &[&str], origin: &Origin) -> Result<Self> {
        let names: Vec<String> = hosts.iter().map(|host| format!("{host}:80")).collect();
        let addresses: Vec<(&str, SocketAddr)> = names
            .iter()
            .map(|name| (name.as_str(), origin.address()))
            .collect();
        Ok(Self::Http(Pair::start(Setup::resolving(&addresses)).await?))
    }

    pub(super) async fn https(hosts: &[&str], origin: &Origin, authority: &TestAuthority) -> Result<Self> {
        let names: Vec<_> = hosts.iter().map(|host| (*host, origin.address())).collect();
        Ok(Self::Https(Accelerated::start(&names, authority, "all").await?))
    }

    fn scheme(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Https(_) => "https",
        }
    }

    pub(super) fn pair(&self) -> &Pair {
        match self {
            Self::Http(pair) => pair,
            Self::Https(site) => &site.pair,
        }
    }

    fn fields(&self, host: &str, by: Initiator<'_>, cookie: &str) -> Vec<(&'static str, String)> {
        let relation = |from: &str| if from == host { "same-origin" } else { "cross-site" };
        let origin = |from: &str| format!("{}://{from}", self.scheme());
        let mut fields = Vec::new();
        let (site, mode, destination) = match by {
            Initiator::User => ("none", "navigate", "document"),
            Initiator::Link(from) => (relation(from), "navigate", "document"),
            Initiator::Page(from) => (relation(from), "no-cors", "script"),
            Initiator::Fetch(from) => (relation(from), "cors", "empty"),
            Initiator::NoReferrer => ("cross-site", "no-cors", "script"),
        };
        if let Initiator::Link(from) | Initiator::Page(from) | Initiator::Fetch(from) = by {
            fields.push(("Referer", format!("{}/", origin(from))));
        }
        if let Initiator::Fetch(from) = by {
            fields.push(("Accept", "text/html".to_owned()));
            if from != host {
                fields.push(("Origin", origin(from)));
            }
        }
        if matches!(by, Initiator::User | Initiator::Link(_)) {
            fields.push(("Upgrade-Insecure-Requests", "1".to_owned()));
        }
        if matches!(self, Self::Https(_)) {
            fields.push(("Sec-Fetch-Site", site.to_owned()));
            fields.push(("Sec-Fetch-Mode", mode.to_owned()));
            fields.push(("Sec-Fetch-Dest", destination.to_owned()));
        }
        if !cookie.is_empty() {
            fields.push(("Cookie", cookie.to_owned()));
        }
        fields
    }

    /// Sends the request and returns the body of the response.
    pub(super) async fn request(
        &self,
        host: &str,
        path: &str,
        by: Initiator<'_>,
        cookie: &str,
    ) -> Result<String> {
        let fields = self.fields(host, by, cookie);
        match self {
            Self::Http(pair) => {
                let fields: Vec<(&str, &str)> = fields
                    .iter()
                    .map(|(name, value)| (*name, value.as_str()))
                    .collect();
                let answer = ask(pair.proxy(), get(&format!("http://{host}{path}"), &fields)).await?;
                Ok(answer.text())
            }
            Self::Https(site) => {
                let fields: String = fields
                    .iter()
                    .map(|(name, value)| format!("{name}: {value}\r\n"))
                    .collect();
                let answer = site.get(host, path, &fields).await?;
                let (_, body) = answer.split_once("\r\n\r\n").context("a head")?;
                Ok(body.to_owned())
            }
        }
    }
}

/// Number of requests for a path at an origin.
pub(super) fn request_count(origin: &Origin, path: &str) -> usize {
    origin.seen().iter().filter(|seen| seen.path == path).count()
}
