//! A response's way into the cache while the browser gets it.
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use longhaul_cache::{BodyWriter, StoredResponse};
use longhaul_http::policy::{self, Storage};
use longhaul_types::ContentHash;
use tracing::debug;

use super::{Busy, Keeper, Query, Store, response_of};

/// A body that is stored as it passes. Dropped before [`Tee::finish`], nothing of it stays.
#[derive(Debug)]
pub(crate) struct Tee {
    store: Store,
    /// `None` if the browser wants nothing kept, while the gateway takes it to be held.
    writer: Option<BodyWriter>,
    response: StoredResponse,
    /// Whether the response may be found by its URL, too.
    indexed: bool,
    _busy: Busy,
}

impl Store {
    /// A way into the cache for a response's body, if it may be stored.
    pub(crate) fn tee(&self, query: Query<'_>, status: StatusCode, fields: &HeaderMap) -> Option<Tee> {
        if *query.method != http::Method::GET || !policy::agent_stores(status, fields) {
            return None;
        }
        let keeper = Keeper::of(query.context)?;
        let writer = self.writer()?;
        Some(Tee {
            store: self.clone(),
            writer: (!forbids(query.request)).then_some(writer),
            response: response_of(&keeper, query.url, query.request, status, fields),
            indexed: is_indexed(query, status, fields),
            _busy: self.busy(),
        })
    }

    /// Keeps a response without body, such as a redirection, if it may be stored.
    pub(crate) async fn put_bodyless(&self, query: Query<'_>, status: StatusCode, fields: &HeaderMap) {
        let keeper = Keeper::of(query.context);
        if let Some(keeper) = keeper
            && is_indexed(query, status, fields)
            && policy::agent_stores(status, fields)
        {
            self.put(response_of(&keeper, query.url, query.request, status, fields))
                .await;
        }
    }

    /// Keeps the response whose body is held already, as the gateway has just told.
    pub(crate) async fn put_held(
        &self,
        query: Query<'_>,
        status: StatusCode,
        fields: &HeaderMap,
        chk: ContentHash,
        length: u64,
    ) {
        let keeper = Keeper::of(query.context);
        if let Some(keeper) = keeper
            && is_indexed(query, status, fields)
        {
            let response = response_of(&keeper, query.url, query.request, status, fields);
            self.put(StoredResponse {
                chk: Some(chk),
                length,
                ..response
            })
            .await;
        }
    }
}

/// Whether a response may be found by its URL.
fn is_indexed(query: Query<'_>, status: StatusCode, fields: &HeaderMap) -> bool {
    let private = query.request.contains_key(http::header::AUTHORIZATION);
    policy::storage(query.method, query.request, status, fields) != Storage::No && !private
}

/// The browser wants nothing of its request kept.
fn forbids(request: &HeaderMap) -> bool {
    let values = request.get_all(http::header::CACHE_CONTROL).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|directive| directive.trim().eq_ignore_ascii_case("no-store"))
}

impl Tee {
    /// Takes the next verified bytes.
    pub(crate) async fn write(&mut self, bytes: Bytes) {
        if let Some(writer) = &mut self.writer {
            writer.write(bytes).await;
        }
    }

    /// The body is complete, and this is its hash.
    pub(crate) async fn finish(mut self, chk: ContentHash) {
        let Some(writer) = self.writer.take() else {
            self.store.report_missing(chk);
            return;
        };
        let length = writer.length();
        match writer.commit().await {
            Ok(chk) if self.indexed => {
                let response = StoredResponse {
                    chk: Some(chk),
                    length,
                    ..self.response
                };
                self.store.put(response).await;
            }
            Ok(_) => {}
            Err(error) => {
                debug!(%error, "a body is not kept");
                self.store.report_missing(chk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};
    use longhaul_http::request_context::{CredentialsSecret, RequestContext};
    use longhaul_types::{ByteCount, ClientId};

    use super::*;
    use crate::config::CacheSettings;

    #[tokio::test]
    async fn a_body_that_is_being_stored_is_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let settings = CacheSettings {
            dir: home.path().to_owned(),
            size: ByteCount::mib(1),
        };
        let store = Store::open(&settings).await;
        let (body, fields) = (Bytes::from_static(b"done"), HeaderMap::new());
        let chk = ContentHash::of(&body);
        let asked = HeaderMap::from_iter([(header::REFERER, HeaderValue::from_static("http://site.test/"))]);
        let secret = CredentialsSecret::derived_from(b"key");
        let context = RequestContext::of(
            ClientId::OWNER,
            &secret,
            &http::Method::GET,
            "http://site.test/page",
            &asked,
        );
        let query = Query {
            context: &context,
            url: "http://site.test/page",
            method: &http::Method::GET,
            request: &fields,
        };
        let mut tee = store.tee(query, StatusCode::OK, &fields).unwrap();
        tee.write(body.clone()).await;
        let by_hash = async { store.body(chk).await.unwrap().length() };
        let by_prefix = async { store.base(&chk.as_bytes()[..6].try_into().unwrap()).await };
        // The readers have looked once in vain before the body is complete.
        let (length, base, ()) = tokio::join!(biased; by_hash, by_prefix, tee.finish(chk));
        assert_eq!((length, base), (4, Some(body)));
        assert!(store.body(ContentHash::of(b"another")).await.is_none());
        store.close().await;
    }
}
