//! When the page was first painted, and its largest part.
use std::time::Duration;

use serde_json::Value;

use crate::{
    devtools::{DevTools, DevToolsError},
    tab::Tab,
};

/// Asks for the entries that the browser keeps (Paint Timing, Largest Contentful Paint), once the frame that shows the
/// loaded page has been drawn: the second animation frame from now begins after it. A page that is never drawn has
/// none; a second is enough to know.
const PAINTS: &str = "new Promise(tell => {
    const found = {};
    const note = list => {
        for (const entry of list.getEntries()) {
            if (entry.entryType === 'largest-contentful-paint') found.largest = entry.startTime;
            else if (entry.name === 'first-contentful-paint') found.first = entry.startTime;
        }
    };
    for (const type of ['paint', 'largest-contentful-paint']) {
        new PerformanceObserver(note).observe({ type, buffered: true });
    }
    const end = () => tell(found);
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(end, 0)));
    setTimeout(end, 1000);
})";

/// Paint times since the navigation began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paints {
    pub(crate) first: Option<Duration>,
    pub(crate) largest: Option<Duration>,
}

impl Paints {
    /// Reads them in a world of its own, where the page's scripts have changed nothing.
    pub(crate) async fn read(devtools: &mut DevTools, tab: &Tab) -> Result<Self, DevToolsError> {
        let found = tab.evaluate_apart(devtools, PAINTS).await?;
        let at = |value: &Value| {
            let milliseconds = value.as_f64().filter(|time| *time > 0.0)?;
            Duration::try_from_secs_f64(milliseconds / 1000.0).ok()
        };
        Ok(Self {
            first: at(&found["first"]),
            largest: at(&found["largest"]),
        })
    }
}
