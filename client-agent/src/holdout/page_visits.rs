//! Visits of pages that the agent reads: their requests, and their ends.
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use longhaul_types::ClientId;

use super::{HoldOut, VisitFields, comparison::Way};

/// Time without requests after which a page has loaded.
const QUIET: Duration = Duration::from_secs(1);
/// Maximum number of pages that load at a time: more tabs do not.
const MAX_PAGES: usize = 64;

/// Client and keyed hash of the page's host.
type Page = (ClientId, u64);

/// The visits in progress, and those that have ended and whose later requests take the same way.
#[derive(Debug, Default)]
pub(super) struct PageVisits(BTreeMap<Page, PageVisit>);

#[derive(Debug)]
struct PageVisit {
    /// Taken when the page has loaded.
    visit: Option<VisitFields>,
    is_direct: bool,
    open: u32,
    /// End of the last response.
    last: Instant,
}

impl PageVisits {
    /// Begins the visit of a page; `visit` is `None` if its time says nothing. Returns the visits that have ended, with
    /// their times.
    pub(super) fn navigate(
        &mut self,
        page: Page,
        visit: Option<VisitFields>,
        now: Instant,
    ) -> Vec<(VisitFields, Duration)> {
        let mut ended = self.finish_idle(now);
        // The user goes on at once: nothing was awaited any more.
        let loaded = self.0.get_mut(&page).filter(|before| before.open == 0);
        if let Some(before) = loaded
            && let Some(fields) = before.visit.take()
        {
            ended.push((fields, before.last.saturating_duration_since(fields.started)));
        }
        if self.0.len() >= MAX_PAGES && !self.0.contains_key(&page) {
            let oldest = self.0.iter().min_by_key(|(_, visit)| visit.last);
            if let Some(oldest) = oldest.map(|(page, _)| *page) {
                self.0.remove(&oldest);
            }
        }
        // A page that was left while it loaded has no time.
        let open = self.0.get(&page).map_or(0, |before| before.open);
        self.0.insert(
            page,
            PageVisit {
                is_direct: visit.is_some_and(|visit| visit.way == Way::Direct),
                visit: visit.filter(|_| open == 0),
                open,
                last: now,
            },
        );
        ended
    }

    /// Begins a request of a page. Returns true if it goes direct; `None` for a page that is not known.
    pub(super) fn begin(&mut self, page: Page, now: Instant) -> Option<bool> {
        let visit = self.0.get_mut(&page)?;
        visit.open += 1;
        visit.last = now;
        Some(visit.is_direct)
    }

    /// A request of the page took another way than its visit: the time does not count.
    pub(super) fn spoil(&mut self, page: Page) {
        if let Some(visit) = self.0.get_mut(&page) {
            visit.visit = None;
        }
    }

    /// Ends a request of a page.
    pub(super) fn end(&mut self, page: Page, now: Instant) {
        if let Some(visit) = self.0.get_mut(&page) {
            visit.open = visit.open.saturating_sub(1);
            visit.last = now;
        }
    }

    /// Ends the visits of the pages that have loaded, and returns them with their times.
    pub(super) fn finish_idle(&mut self, now: Instant) -> Vec<(VisitFields, Duration)> {
        let idle = self
            .0
            .values_mut()
            .filter(|visit| visit.open == 0 && now.saturating_duration_since(visit.last) >= QUIET);
        idle.filter_map(|visit| {
            let fields = visit.visit.take()?;
            Some((fields, visit.last.saturating_duration_since(fields.started)))
        })
        .collect()
    }
}

/// A request of a page, until the browser has its response.
#[derive(Debug)]
pub(crate) struct PageRequest {
    hold_out: HoldOut,
    page: Page,
    is_direct: bool,
}

impl PageRequest {
    pub(super) const fn new(hold_out: HoldOut, page: Page, is_direct: bool) -> Self {
        Self {
            hold_out,
            page,
            is_direct,
        }
    }

    /// A request takes another way than the page's visit.
    pub(crate) fn spoil(&self) {
        self.hold_out.spoil(self.page);
    }

    /// True if the page's visit goes directly to its hosts.
    pub(crate) const fn is_direct(&self) -> bool {
        self.is_direct
    }
}

impl Drop for PageRequest {
    fn drop(&mut self) {
        self.hold_out.end_request(self.page);
    }
}

#[cfg(test)]
mod tests {
    use longhaul_types::BitRate;

    use super::*;
    use crate::holdout::{Kind, Link, LinkClass, comparison::Role};

    const PAGE: Page = (ClientId::OWNER, 7);

    #[test]
    fn a_page_takes_until_its_last_response_before_a_pause() {
        let mut pages = PageVisits::default();
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let visit = VisitFields {
            kind: Kind::Page,
            link: Link {
                network: None,
                class: LinkClass::new(Some(Duration::from_millis(1)), Some(BitRate::kbps(50_000))),
            },
            host: 7,
            way: Way::Direct,
            role: Role::HeldOut,
            started: start,
        };
        assert_eq!(pages.begin(PAGE, at(0)), None);
        assert!(pages.navigate(PAGE, Some(visit), at(0)).is_empty());
        assert_eq!(pages.begin(PAGE, at(0)), Some(true));
        assert!(pages.finish_idle(at(5000)).is_empty(), "a response is awaited");
        pages.end(PAGE, at(5100));
        assert_eq!(pages.begin(PAGE, at(5200)), Some(true));
        pages.end(PAGE, at(5300));
        let ended = pages.finish_idle(at(6300));
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].1, Duration::from_millis(5300));
        // What an open page asks for later takes the same way and does not count.
        assert_eq!(pages.begin(PAGE, at(9000)), Some(true));
        pages.end(PAGE, at(9100));
        assert!(pages.finish_idle(at(12_000)).is_empty());
        // A page that is left before it has loaded does not count.
        pages.navigate(PAGE, Some(visit), at(20_000));
        pages.begin(PAGE, at(20_000));
        pages.navigate(PAGE, Some(visit), at(20_100));
        pages.end(PAGE, at(20_200));
        assert!(pages.finish_idle(at(30_000)).is_empty());
        // A request that took another way spoils the visit.
        pages.navigate(PAGE, Some(visit), at(31_000));
        pages.spoil(PAGE);
        assert!(pages.finish_idle(at(35_000)).is_empty());
        for host in 0..200 {
            pages.navigate((ClientId::OWNER, host), None, at(40_000));
        }
        assert_eq!(pages.0.len(), MAX_PAGES);
    }
}
