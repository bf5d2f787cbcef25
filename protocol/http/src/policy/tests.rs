mod freshness;
mod properties;
mod reuse;
mod scope;
mod sharing;
mod storage;
mod validation;

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use longhaul_types::UnixTime;

use super::*;
use crate::{date, test_fields::map};

/// Arrival time of the responses of these tests: Sun, 06 Nov 1994 08:49:37 GMT.
const NOW: UnixTime = UnixTime::new(Duration::from_secs(784_111_777));
const OK: StatusCode = StatusCode::OK;
const GET: Method = Method::GET;

fn after(seconds: u64) -> UnixTime {
    NOW + Duration::from_secs(seconds)
}

fn before(seconds: u64) -> UnixTime {
    UnixTime::new(NOW.since_epoch() - Duration::from_secs(seconds))
}

fn dated(mut fields: HeaderMap, name: &'static str, time: UnixTime) -> HeaderMap {
    fields.insert(name, date::write(time));
    fields
}

/// A response received at [`NOW`], requested at the same time without any field.
fn private(response: &HeaderMap) -> Freshness {
    Freshness::of(&HeaderMap::new(), OK, response, NOW, NOW, CacheKind::Private)
}

fn shared(response: &HeaderMap) -> Freshness {
    Freshness::of(&HeaderMap::new(), OK, response, NOW, NOW, CacheKind::Shared)
}
