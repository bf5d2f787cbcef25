//! A scripted browser: loads a page, then its objects over several connections, with cookies.
use std::{collections::BTreeMap, net::SocketAddr};

use parking_lot::Mutex;

use anyhow::{Context, Result};
use futures_util::{StreamExt, TryStreamExt, stream};
use longhaul_tests::client::{RawClient, RawResponse, get};

/// Maximum connections per host, as in browsers.
const CONNECTIONS: usize = 6;
const PAGE: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8";

/// The user of one scripted browser.
#[derive(Debug)]
pub(super) struct Visitor {
    proxy: SocketAddr,
    language: String,
    software: String,
    cookies: Mutex<BTreeMap<String, BTreeMap<String, String>>>,
}

/// A loaded page with its objects.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) page: RawResponse,
    objects: BTreeMap<String, RawResponse>,
}

impl Visit {
    /// The response for an object.
    pub(super) fn object(&self, url: &str) -> &RawResponse {
        self.objects.get(url).expect("the object was requested")
    }
}

impl Visitor {
    /// A visitor that uses this proxy.
    pub(super) fn new(proxy: SocketAddr) -> Self {
        Self {
            proxy,
            language: "en-US,en;q=0.5".to_owned(),
            software: "Mozilla/5.0 (X11; Linux x86_64) test".to_owned(),
            cookies: Mutex::default(),
        }
    }

    /// The same visitor with another `Accept-Language`.
    pub(super) fn with_language(self, language: &str) -> Self {
        Self {
            language: language.to_owned(),
            ..self
        }
    }

    /// The same visitor with another `User-Agent`.
    pub(super) fn with_user_agent(self, software: &str) -> Self {
        Self {
            software: software.to_owned(),
            ..self
        }
    }

    /// The same visitor with a cookie of this host.
    pub(super) fn with_cookie(self, host: &str, name: &str, value: &str) -> Self {
        self.store_cookie(host, &format!("{name}={value}"));
        self
    }

    /// Navigates to a page.
    pub(super) async fn page(&self, url: &str) -> Result<RawResponse> {
        self.fetch(url, PAGE, &[]).await
    }

    /// Requests an object of a page.
    pub(super) async fn object(&self, page: &str, url: &str, more: &[(&str, &str)]) -> Result<RawResponse> {
        let path = url.split('?').next().unwrap_or_default();
        let accept = match path.rsplit('.').next() {
            Some("css") => "text/css,*/*;q=0.1",
            Some("html") => PAGE,
            Some("gif" | "png" | "jpg") => "image/webp,image/*,*/*;q=0.8",
            _ => "*/*",
        };
        let referer = if host(page) == host(url) {
            page.to_owned()
        } else {
            format!("http://{}/", host(page))
        };
        let fields: Vec<_> = [("Referer", referer.as_str())]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        self.fetch(url, accept, &fields).await
    }

    /// Loads a page, then its objects over several connections.
    pub(super) async fn visit(&self, page: &str, objects: &[&str]) -> Result<Visit> {
        let loaded = self.page(page).await?;
        let objects = self.objects(page, objects).await?;
        Ok(Visit {
            page: loaded,
            objects,
        })
    }

    /// Requests several objects of a page.
    pub(super) async fn objects(
        &self,
        page: &str,
        objects: &[&str],
    ) -> Result<BTreeMap<String, RawResponse>> {
        let asked = objects.iter().map(|object| async move {
            let answered = self.object(page, object, &[]).await;
            let answered = answered.with_context(|| (*object).to_owned())?;
            anyhow::Ok(((*object).to_owned(), answered))
        });
        stream::iter(asked)
            .buffer_unordered(CONNECTIONS)
            .try_collect()
            .await
    }

    /// Requests a URL on a new connection.
    pub(super) async fn fetch(&self, url: &str, accept: &str, more: &[(&str, &str)]) -> Result<RawResponse> {
        let host = host(url);
        let cookie = self.cookie(host);
        let mut fields = vec![
            ("User-Agent", self.software.as_str()),
            ("Accept", accept),
            ("Accept-Language", self.language.as_str()),
            ("Accept-Encoding", "gzip, deflate"),
            ("Proxy-Connection", "keep-alive"),
        ];
        if accept == PAGE {
            fields.push(("Upgrade-Insecure-Requests", "1"));
        }
        if !cookie.is_empty() {
            fields.push(("Cookie", &cookie));
        }
        fields.extend_from_slice(more);
        let mut client = RawClient::connect(self.proxy).await?;
        client.send(get(url, &fields)).await?;
        let response = client.response().await?;
        for line in response.all("set-cookie") {
            self.store_cookie(host, line);
        }
        Ok(response)
    }

    /// Value of the `Cookie` field for a host.
    pub(super) fn cookie(&self, host: &str) -> String {
        let cookies = self.cookies.lock();
        let cookies = cookies.get(host).into_iter().flatten();
        let pairs: Vec<_> = cookies.map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("; ")
    }

    fn store_cookie(&self, host: &str, line: &str) {
        let pair = line.split(';').next().unwrap_or_default();
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let mut cookies = self.cookies.lock();
        cookies
            .entry(host.to_owned())
            .or_default()
            .insert(name.trim().to_owned(), value.trim().to_owned());
    }
}

/// The host of a URL.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}
