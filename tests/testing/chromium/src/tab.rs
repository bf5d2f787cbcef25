//! A tab: a page and the session that controls it.
use serde_json::{Value, json};

use crate::{
    devtools::{DevTools, DevToolsError},
    flags::Viewport,
};

/// Maximum length of a body that the browser stores: larger ones have no hash.
const MAX_BODY: u64 = 64 << 20;
/// Maximum length of all stored bodies.
const MAX_BODIES: u64 = 256 << 20;

/// An open tab.
#[derive(Debug)]
pub(crate) struct Tab {
    target: Value,
    pub(crate) session: String,
}

impl Tab {
    /// Opens an empty tab of this size that reports its requests.
    pub(crate) async fn open(devtools: &mut DevTools, viewport: Viewport) -> Result<Self, DevToolsError> {
        let blank = json!({ "url": "about:blank" });
        let target = devtools.call(None, "Target.createTarget", blank).await?["targetId"].take();
        let attach = json!({ "targetId": target, "flatten": true });
        let session = devtools.call(None, "Target.attachToTarget", attach).await?;
        let session = session["sessionId"]
            .as_str()
            .ok_or_else(|| DevToolsError::Malformed("an attached target without a session".to_owned()))?;
        let tab = Self {
            target,
            session: session.to_owned(),
        };
        let Viewport { width, height } = viewport;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let kept = json!({ "maxResourceBufferSize": MAX_BODY, "maxTotalBufferSize": MAX_BODIES });
        for (method, params) in [
            ("Page.enable", json!({})),
            ("Network.enable", kept),
            ("Runtime.enable", json!({})),
            ("Emulation.setDeviceMetricsOverride", size),
        ] {
            tab.call(devtools, method, params).await?;
        }
        Ok(tab)
    }

    /// Calls a method of the tab.
    pub(crate) async fn call(
        &self,
        devtools: &mut DevTools,
        method: &str,
        params: Value,
    ) -> Result<Value, DevToolsError> {
        devtools.call(Some(&self.session), method, params).await
    }

    /// Evaluates an expression in an isolated world beside the page's; a promise is awaited.
    pub(crate) async fn evaluate_apart(
        &self,
        devtools: &mut DevTools,
        expression: &str,
    ) -> Result<Value, DevToolsError> {
        let tree = self.call(devtools, "Page.getFrameTree", json!({})).await?;
        let world = json!({ "frameId": tree["frameTree"]["frame"]["id"], "worldName": "longhaul" });
        let world = self.call(devtools, "Page.createIsolatedWorld", world).await?;
        let evaluated = json!({
            "expression": expression,
            "contextId": world["executionContextId"],
            "awaitPromise": true,
            "returnByValue": true,
        });
        let mut answer = self.call(devtools, "Runtime.evaluate", evaluated).await?;
        if answer["exceptionDetails"].is_null() {
            Ok(answer["result"]["value"].take())
        } else {
            Err(DevToolsError::Refused {
                method: "Runtime.evaluate".to_owned(),
                reason: thrown(&answer["exceptionDetails"]),
            })
        }
    }

    /// Closes the tab; pending operations end.
    pub(crate) async fn close(self, devtools: &mut DevTools) -> Result<(), DevToolsError> {
        let target = json!({ "targetId": self.target });
        devtools.call(None, "Target.closeTarget", target).await?;
        // Remaining events of the tab must not reach the next one.
        while devtools.queued().is_some() {}
        Ok(())
    }
}

/// Returns the text of an exception.
pub(crate) fn thrown(details: &Value) -> String {
    let described = details["exception"]["description"].as_str();
    let described = described.or_else(|| details["text"].as_str());
    described.unwrap_or("unknown").to_owned()
}
