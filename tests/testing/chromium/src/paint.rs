//! Paint times of a page.
use std::time::Duration;

use serde_json::Value;

use crate::{
    devtools::{DevTools, DevToolsError},
    tab::Tab,
};

/// Requests the entries that the browser stores (Paint Timing, Largest Contentful Paint), after the frame
/// that shows the loaded page has been drawn: the second animation frame from now begins after it. The
/// entries are added when the frame has been presented, on a busy machine later than that, so the script
/// waits longer for a page with visible content. A page without visible content has no entries, and a page
/// may have no largest paint.
const PAINTS: &str = "new Promise(tell => {
    const found = {};
    let drawn = false;
    const end = () => tell(found);
    const look = () => {
        if (drawn && found.first && found.largest) end();
    };
    const note = list => {
        for (const entry of list.getEntries()) {
            if (entry.entryType === 'largest-contentful-paint') found.largest = entry.startTime;
            else if (entry.name === 'first-contentful-paint') {
                found.first = entry.startTime;
                setTimeout(end, 1000);
            }
        }
        look();
    };
    for (const type of ['paint', 'largest-contentful-paint']) {
        new PerformanceObserver(note).observe({ type, buffered: true });
    }
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => {
        drawn = true;
        look();
    }, 0)));
    const root = document.documentElement;
    const shows = root && (root.innerText.trim() || document.images.length > 0);
    setTimeout(end, shows ? 10000 : 1000);
})";

/// Paint times relative to the start of the navigation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paints {
    pub(crate) first: Option<Duration>,
    pub(crate) largest: Option<Duration>,
}

impl Paints {
    /// Reads them in an isolated world, which the page's scripts have not changed.
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
