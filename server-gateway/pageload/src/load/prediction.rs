//! Prediction of the browser's request for an entry.
use longhaul_gateway_core::{
    predicted_request::{is_personal, predicted_request},
    wall_clock::now,
};
use longhaul_page::Destination;
use longhaul_session::EntryId;
use longhaul_webcache::CacheRequest;

use super::state::LoadState;
use crate::plan::PredictedCookies;

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
        let (context, page) = (self.context(), self.load.identity());
        let mut request = predicted_request(
            &context.gateway.credentials,
            (context.device, page.context().client()),
            &reference.url,
            prediction.fields,
            self.via.as_ref(),
        )?;
        if page.partition().is_none() {
            // The page is in a frame of another site, or its embedder is unknown.
            request.identity = request.identity.without_partition();
        }
        Some(request)
    }
}
