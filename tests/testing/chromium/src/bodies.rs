//! Hashes of the bodies that the page received.
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

use crate::{
    devtools::{DevTools, DevToolsError},
    requests::Requests,
    tab::Tab,
};

/// Records the BLAKE3 of each complete body. The browser returns text in decoded form: if that changed the
/// length (a byte order mark, an encoding other than UTF-8), or if the browser has discarded the body, there
/// is no hash.
pub(crate) async fn hash(
    devtools: &mut DevTools,
    tab: &Tab,
    requests: &mut Requests,
) -> Result<(), DevToolsError> {
    for (at, id, length) in requests.bodies() {
        let asked = json!({ "requestId": id });
        let answer = match tab.call(devtools, "Network.getResponseBody", asked).await {
            Ok(answer) => answer,
            Err(DevToolsError::Refused { .. }) => continue,
            Err(error) => return Err(error),
        };
        let body = answer["body"].as_str().unwrap_or_default();
        let bytes = if answer["base64Encoded"].as_bool() == Some(true) {
            STANDARD
                .decode(body)
                .map_err(|error| DevToolsError::Malformed(error.to_string()))?
        } else {
            body.as_bytes().to_vec()
        };
        if u64::try_from(bytes.len()).is_ok_and(|bytes| bytes == length) {
            requests.hashed(at, blake3::hash(&bytes).into());
        }
    }
    Ok(())
}
