//! The login page of a network.
use url::Url;

/// A login page that a network shows in the place of other hosts (RFC 8952).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginPage {
    /// Root of the host that was asked; the network answers any request of plain HTTP there.
    asked: Url,
    /// Where the network redirects to.
    page: Option<Url>,
}

impl LoginPage {
    /// The network answered a request for `asked`, perhaps by a redirect to `page`.
    pub fn new(asked: &Url, page: Option<Url>) -> Self {
        let mut root = asked.clone();
        root.set_path("/");
        root.set_query(None);
        Self { asked: root, page }
    }

    /// The address that a browser should open.
    pub fn address(&self) -> String {
        self.page.as_ref().unwrap_or(&self.asked).to_string()
    }

    /// The host that shows the page, if the network has named it.
    pub fn host(&self) -> Option<&str> {
        self.page.as_ref()?.host_str()
    }
}
