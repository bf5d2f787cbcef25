//! The pages of the journal: their requests, times and sources. Pure.
use super::background_calls::is_background;
use crate::journal::{RequestRecord, ResponseEnd, Source};

/// Number of pages that the dashboard lists.
pub(crate) const MAX_PAGES: usize = 50;
/// Number of failures that the dashboard lists.
const MAX_FAILURES: usize = 12;
/// A page is loaded when nothing was under way for this time, in ms. Requests after it are those of scripts.
const QUIET_MS: u64 = 2000;

/// A page with its requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageLoad {
    /// The request for the page.
    pub(crate) page: RequestRecord,
    /// All requests up to the end of the load, the page's first.
    pub(crate) requests: Vec<RequestRecord>,
    /// Number of requests after the end of the load.
    pub(crate) later: usize,
    /// True if a request is under way.
    pub(crate) is_loading: bool,
}

impl PageLoad {
    fn of(page: RequestRecord, mut requests: Vec<RequestRecord>) -> Self {
        requests.sort_by_key(|request| (request.at_ms, request.number));
        let mut end = page.at_ms;
        let mut loaded = 0;
        for request in &requests {
            if loaded > 0 && request.at_ms > end.saturating_add(QUIET_MS) {
                break;
            }
            let ended = request.ended_ms.or(request.answered_ms).unwrap_or(0);
            end = end.max(request.at_ms.saturating_add(ended));
            loaded += 1;
        }
        let later = requests.len() - loaded;
        requests.truncate(loaded);
        let is_loading = requests.iter().any(|request| request.end == ResponseEnd::Running);
        Self {
            page,
            requests,
            later,
            is_loading,
        }
    }

    /// Duration of the load so far, in ms.
    pub(crate) fn duration_ms(&self) -> u64 {
        let ends = self
            .requests
            .iter()
            .map(|request| self.offset_ms(request) + ended_ms(request));
        ends.max().unwrap_or(0)
    }

    /// Time between the request for the page and this request, in ms.
    pub(crate) const fn offset_ms(&self, request: &RequestRecord) -> u64 {
        request.at_ms.saturating_sub(self.page.at_ms)
    }

    /// Bytes of bodies on the hop.
    pub(crate) fn hop_bytes(&self) -> u64 {
        self.requests.iter().map(|request| request.hop_bytes).sum()
    }

    /// Bytes that the browser received.
    pub(crate) fn bytes(&self) -> u64 {
        self.requests.iter().map(|request| request.bytes).sum()
    }

    /// The shortest possible time of the load in ms: a round trip, and the bytes on the hop at the rate of the link,
    /// both as measured when the page was asked for; `None` if the link was not measured then.
    pub(crate) fn ideal_ms(&self) -> Option<u64> {
        let rate = self.page.rate_bps.filter(|rate| *rate > 0)?;
        let transfer = u128::from(self.hop_bytes()) * 8000 / u128::from(rate);
        let trip = if self.hop_bytes() > 0 {
            self.page.rtt_ms.unwrap_or(0)
        } else {
            0
        };
        Some(u64::try_from(transfer).ok()?.saturating_add(trip))
    }

    /// Number of requests from a source.
    pub(crate) fn count(&self, source: Source) -> u64 {
        let of_source = self.requests.iter().filter(|request| request.source == source);
        of_source.count() as u64
    }

    /// Number of requests that failed or whose response is incomplete.
    pub(crate) fn failures(&self) -> u64 {
        self.requests.iter().filter(|request| is_failed(request)).count() as u64
    }

    /// Number of responses that the gateway changed.
    pub(crate) fn changed(&self) -> u64 {
        self.requests
            .iter()
            .filter(|request| request.changed.is_some())
            .count() as u64
    }
}

/// True if a request failed or its response is incomplete.
pub(crate) fn is_failed(request: &RequestRecord) -> bool {
    request.source == Source::Failed || request.end == ResponseEnd::Broken
}

fn ended_ms(request: &RequestRecord) -> u64 {
    request.ended_ms.or(request.answered_ms).unwrap_or(0)
}

/// Returns the newest pages, newest first.
pub(crate) fn newest(requests: &[RequestRecord]) -> Vec<PageLoad> {
    let pages = requests.iter().rev().filter(|request| request.is_page);
    let load = |page: &RequestRecord| {
        let own = requests
            .iter()
            .filter(|request| request.page == Some(page.number));
        PageLoad::of(page.clone(), own.cloned().collect())
    };
    pages.take(MAX_PAGES).map(load).collect()
}

/// The newest failures, newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures<'a> {
    /// Those of pages and programs.
    pub(crate) of_pages: Vec<&'a RequestRecord>,
    /// Those of calls that browsers and systems make by themselves.
    pub(crate) in_background: Vec<&'a RequestRecord>,
}

/// Returns the newest failures.
pub(crate) fn failures(requests: &[RequestRecord]) -> Failures<'_> {
    let failed = requests.iter().rev().filter(|request| is_failed(request));
    let (in_background, of_pages): (Vec<_>, Vec<_>) =
        failed.partition(|request| is_background(request.host()));
    let newest = |failed: Vec<_>| failed.into_iter().take(MAX_FAILURES).collect();
    Failures {
        of_pages: newest(of_pages),
        in_background: newest(in_background),
    }
}

/// Returns the page with this number.
pub(crate) fn find(requests: &[RequestRecord], number: u64) -> Option<PageLoad> {
    let page = requests
        .iter()
        .find(|request| request.is_page && request.number == number)?;
    let own = requests.iter().filter(|request| request.page == Some(number));
    Some(PageLoad::of(page.clone(), own.cloned().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64, page: u64, at_ms: u64, ended_ms: u64) -> RequestRecord {
        RequestRecord {
            number,
            page: Some(page),
            is_page: number == page,
            at_ms,
            ended_ms: Some(ended_ms),
            end: ResponseEnd::Complete,
            hop_bytes: 1000,
            bytes: 3000,
            rate_bps: (number == page).then_some(80_000),
            rtt_ms: (number == page).then_some(600),
            ..RequestRecord::default()
        }
    }

    #[test]
    fn a_load_ends_with_the_first_quiet_time() {
        let mut poll = request(4, 1, 9000, 100);
        poll.changed = Some("image=low".to_owned());
        let mut broken = request(3, 1, 1500, 400);
        broken.end = ResponseEnd::Broken;
        let requests = [
            request(1, 1, 1000, 300),
            request(2, 1, 1200, 900),
            broken,
            poll,
            request(5, 5, 9500, 100),
        ];
        let pages = newest(&requests);
        assert_eq!(pages.len(), 2);
        assert_eq!(pages[0].page.number, 5, "the newest is first");
        let load = &pages[1];
        assert_eq!((load.requests.len(), load.later), (3, 1));
        assert_eq!(load.duration_ms(), 1100);
        assert_eq!((load.hop_bytes(), load.bytes()), (3000, 9000));
        assert_eq!(load.ideal_ms(), Some(900));
        assert_eq!((load.failures(), load.changed(), load.is_loading), (1, 0, false));
        assert_eq!(find(&requests, 5).unwrap().requests.len(), 1);
        assert!(find(&requests, 2).is_none(), "it is not a page");
    }

    #[test]
    fn a_page_from_the_cache_has_no_round_trip_in_its_ideal() {
        let mut page = request(1, 1, 0, 10);
        page.hop_bytes = 0;
        assert_eq!(newest(&[page.clone()])[0].ideal_ms(), Some(0));
        page.rate_bps = None;
        assert_eq!(newest(&[page])[0].ideal_ms(), None);
    }
}
