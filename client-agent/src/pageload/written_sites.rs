//! The sites to which the browser has sent unsafe requests during a page load.
//!
//! A script may write and then read: `POST /cart`, then `GET /cart`. If the gateway fetched the second response before the
//! first request, it does not show what was written. A response that is fresh for longer than this page may be used
//! anyway (RFC 9111 section 4.4 invalidates the URL of the unsafe request only); one that the gateway fetched for this page
//! alone may not. What the origin answered does not matter: a browser without Longhaul asks the origin again in any case.
use longhaul_http::site::SchemefulSite;

/// Maximum number of sites by name. A page that writes to more counts as having written to all.
const MAX_SITES: usize = 16;

/// A set of sites.
#[derive(Debug, Default)]
pub(super) struct WrittenSites {
    sites: Vec<SchemefulSite>,
}

impl WrittenSites {
    /// Adds a site.
    pub(super) fn add(&mut self, site: &SchemefulSite) {
        if self.sites.len() <= MAX_SITES && !self.sites.contains(site) {
            self.sites.push(site.clone());
        }
    }

    /// True if the set has the site of a URL.
    pub(super) fn contains(&self, url: &str) -> bool {
        if self.sites.is_empty() {
            return false;
        }
        self.sites.len() > MAX_SITES
            || SchemefulSite::of_url(url).is_none_or(|site| self.sites.contains(&site))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(url: &str) -> SchemefulSite {
        SchemefulSite::of_url(url).unwrap()
    }

    #[test]
    fn a_write_concerns_the_whole_site_and_no_other() {
        let mut written = WrittenSites::default();
        assert!(!written.contains("https://shop.test/cart"));
        written.add(&site("https://api.shop.test/cart"));
        assert!(written.contains("https://shop.test/cart"));
        assert!(!written.contains("http://shop.test/cart"));
        assert!(!written.contains("https://other.test/cart"));
    }

    #[test]
    fn a_page_that_writes_to_many_sites_has_written_to_all() {
        let mut written = WrittenSites::default();
        for number in 0..MAX_SITES {
            written.add(&site(&format!("https://{number}.test/")));
            written.add(&site(&format!("https://{number}.test/")));
        }
        assert!(!written.contains("https://last.test/"));
        for number in 0..100 {
            written.add(&site(&format!("https://more-{number}.test/")));
        }
        assert_eq!(written.sites.len(), MAX_SITES + 1);
        assert!(written.contains("https://last.test/"));
    }
}
