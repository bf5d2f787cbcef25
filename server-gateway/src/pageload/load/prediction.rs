//! Prediction of the browser's request for an entry.
use http::{Method, Request, header};
use longhaul_http::{coding, policy::Reload};
use longhaul_page::Destination;
use longhaul_session::EntryId;
use longhaul_webcache::{CacheRequest, Purpose, RequesterIdentity};

use super::state::LoadState;
use crate::pageload::{context::now, plan::PredictedCookies};

impl LoadState {
    /// Predicts the browser's request for an entry; `None` if the browser's cookies for a document are
    /// unknown.
    pub(super) fn predict(&mut self, entry: EntryId) -> Option<CacheRequest> {
        let reference = self.plan.get(entry)?.reference.clone();
        let chain = self.chain(entry)?;
        let prediction = if reference.destination == Destination::Document {
            self.predict_navigation(&reference.url, &chain)
        } else {
            let observed = self.context().observed();
            self.predictor
                .predict(&reference, &chain, &observed.templates, &self.jar, now())
        };
        if prediction.is_withheld && is_personal(reference.destination) {
            return None;
        }
        let cookies = if prediction.is_withheld {
            PredictedCookies::Withheld
        } else {
            PredictedCookies::Complete
        };
        self.plan.predicted(entry, &prediction.fields, cookies);
        let browser = prediction.fields;
        let mut headers = browser.clone();
        headers.remove(header::TE);
        coding::set_accept_encoding(&mut headers);
        if let Some(via) = &self.via {
            headers.insert(header::VIA, via.clone());
        }
        let request = Request::builder().method(Method::GET).uri(reference.url.as_str());
        let (mut parts, ()) = request.body(()).ok()?.into_parts();
        parts.headers = headers;
        let (context, page) = (self.context(), self.load.identity());
        let who = (context.device, page.context().client());
        let secret = &context.gateway.credentials;
        let mut identity = RequesterIdentity::of(who, secret, &Method::GET, reference.url.as_str(), &browser);
        if page.partition().is_none() {
            // The page is in a frame of another site, or its embedder is unknown.
            identity = identity.without_partition();
        }
        Some(CacheRequest {
            identity,
            parts,
            browser,
            reload: Reload::None,
            purpose: Purpose::Predicted,
        })
    }
}

/// Returns true if the response most likely differs for logged-in users, so that a request without cookies is
/// useless.
const fn is_personal(destination: Destination) -> bool {
    destination.is_document() || matches!(destination, Destination::Other)
}
