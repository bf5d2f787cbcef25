//! When the page was first painted, and its largest part.
use std::time::Duration;

use serde_json::Value;

use crate::{
    devtools::{DevTools, DevToolsError},
    tab::Tab,
};

/// Asks for the entries that the browser keeps (Paint Timing, Largest Contentful Paint), once the frame that shows the
/// loaded page has been drawn: the second animation frame from now begins after it. The entries come when the frame has
/// been presented, on a busy machine later than that, so a page that has something to show is waited for longer. A
/// page that shows nothing has none, and one may have no largest part.
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
