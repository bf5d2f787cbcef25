//! Cache writer: stores a response's body while the browser receives it.
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use longhaul_cache::{BodyWriter, StoredResponse};
use longhaul_http::policy::{self, Storage};
use longhaul_types::ContentHash;
use tracing::debug;

use super::{
    Query, Store, StoringGuard,
    storage_context::{StorageContext, response_of},
};

/// A body that is stored while it is relayed. If dropped before [`CacheWriter::finish`], nothing is stored.
#[derive(Debug)]
pub(crate) struct CacheWriter {
    store: Store,
    writer: BodyWriter,
    response: StoredResponse,
    /// True if the response may also be found by its URL.
    indexed: bool,
    _busy: StoringGuard,
}

impl Store {
    /// Creates a cache writer for a response's body, if the body may be stored.
    pub(crate) fn cache_writer(
        &self,
        query: Query<'_>,
        status: StatusCode,
        fields: &HeaderMap,
    ) -> Option<CacheWriter> {
        let indexed = is_indexed(query, status, fields);
        if !indexed && !policy::agent_stores(query.method, query.request, status, fields) {
            return None;
        }
        let storage_context = StorageContext::of(query.context)?;
        Some(CacheWriter {
            store: self.clone(),
            writer: self.writer()?,
            response: response_of(&storage_context, query.url, query.request, status, fields),
            indexed,
            _busy: self.busy(),
        })
    }

    /// Stores a response without body, such as a redirection, if it may be stored.
    pub(crate) async fn put_bodyless(&self, query: Query<'_>, status: StatusCode, fields: &HeaderMap) {
        let storage_context = StorageContext::of(query.context);
        if let Some(storage_context) = storage_context
            && is_indexed(query, status, fields)
        {
            self.put(response_of(
                &storage_context,
                query.url,
                query.request,
                status,
                fields,
            ))
            .await;
        }
    }

    /// Stores a response whose body the cache already holds, according to the gateway.
    pub(crate) async fn put_held(
        &self,
        query: Query<'_>,
        status: StatusCode,
        fields: &HeaderMap,
        chk: ContentHash,
        length: u64,
    ) {
        let storage_context = StorageContext::of(query.context);
        if let Some(storage_context) = storage_context
            && is_indexed(query, status, fields)
        {
            let response = response_of(&storage_context, query.url, query.request, status, fields);
            self.put(StoredResponse {
                chk: Some(chk),
                length,
                ..response
            })
            .await;
        }
    }
}

/// True if a response may be found by its URL.
fn is_indexed(query: Query<'_>, status: StatusCode, fields: &HeaderMap) -> bool {
    let private = query.request.contains_key(http::header::AUTHORIZATION);
    policy::storage(query.method, query.request, status, fields) != Storage::No && !private
}

impl CacheWriter {
    /// Writes the next verified bytes.
    pub(crate) async fn write(&mut self, bytes: Bytes) {
        self.writer.write(bytes).await;
    }

    /// Completes the body, whose hash is `chk`.
    pub(crate) async fn finish(self, chk: ContentHash) {
        let length = self.writer.length();
        match self.writer.commit().await {
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
                debug!(%error, "a body cannot be stored");
                self.store.report_missing(chk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};
    use longhaul_http::request_context::{CredentialsSecret, RequestContext};
    use longhaul_session::ShortHash;
    use longhaul_types::{ByteCount, ClientId};

    use super::*;

    #[tokio::test]
    async fn a_reader_waits_for_a_body_that_is_being_stored() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path().to_owned(), ByteCount::mib(1)).await;
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
            images: longhaul_session::ImageLevel::Original,
        };
        let mut cache_writer = store.cache_writer(query, StatusCode::OK, &fields).unwrap();
        cache_writer.write(body.clone()).await;
        let by_hash = async { store.body(chk).await.unwrap().length() };
        let by_prefix = async { store.base(&ShortHash::of(&chk)).await };
        // The readers have looked up the body once, in vain, before it is complete.
        let (length, base, ()) = tokio::join!(biased; by_hash, by_prefix, cache_writer.finish(chk));
        assert_eq!((length, base), (4, Some(body)));
        assert!(store.body(ContentHash::of(b"another")).await.is_none());
        store.close().await;
    }
}
