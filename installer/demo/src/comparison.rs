//! The page of `longhaul demo --link`: the built-in site loads directly and through Longhaul, side by side.
//!
//! The visitor's browser needs no proxy settings: two small servers ([`view`]) pass its requests to one proxy each. The
//! two have ports of their own, so that a browser opens its six connections to each.
mod document;
mod forget;
mod page;
mod view;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::{net::TcpListener, task::JoinSet};

use crate::emulation::DirectProxy;
pub(crate) use forget::ControlPort;
pub(crate) use page::Contents;

/// The running page; it ends when dropped.
#[derive(Debug)]
pub(crate) struct ComparisonPage {
    address: SocketAddr,
    _servers: JoinSet<()>,
}

impl ComparisonPage {
    /// Starts the page and its two views.
    ///
    /// # Errors
    /// No port is available.
    pub(crate) async fn start(
        contents: &Contents<'_>,
        direct: Arc<DirectProxy>,
        control: ControlPort,
    ) -> io::Result<Self> {
        let mut servers = JoinSet::new();
        let mut views = Vec::new();
        for proxy in [contents.direct_proxy, contents.longhaul_proxy] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let address = listener.local_addr()?;
            servers.spawn(view::serve(listener, address, proxy));
            views.push(address);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let page = page::Page::new(contents, &views, address, direct, control);
        servers.spawn(page::serve(listener, Arc::new(page)));
        Ok(Self {
            address,
            _servers: servers,
        })
    }

    /// URL of the page.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

#[cfg(test)]
mod tests;
