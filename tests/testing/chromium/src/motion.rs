//! Suppression of motion in a page, so that two screenshots of it differ only where its content does.
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::{
    devtools::{DevTools, DevToolsError, Incoming},
    requests::Requests,
    tab::Tab,
};

/// Time without pending requests after which a page is quiet.
const QUIET: Duration = Duration::from_millis(500);
/// Time after which the screenshot is taken of a page that is never quiet because it polls or waits for
/// missing responses.
const QUIET_LIMIT: Duration = Duration::from_secs(30);
/// Animated pictures show their first frame: blink's `ImageAnimationPolicy::kNoAnimation`.
pub(crate) const FLAG: &str = "--blink-settings=imageAnimationPolicy=2";

/// Motion in a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Motion {
    /// All motion, as users see it.
    #[default]
    AsUsual,
    /// None: scripts get a clock that begins at the same time in each load and reproducible random numbers,
    /// `prefers-reduced-motion` is set, and animated pictures are stopped. Before the screenshot, the load
    /// waits until the page sends no more requests, ends its animations, stops its videos and scrolls to its
    /// beginning.
    ///
    /// Scripts may therefore request other objects than usual: compare times only among such loads.
    Still,
}

/// Runs before every script of the page: the clock begins at noon of a Wednesday and advances like the real
/// one, because scripts wait for it. Random numbers are those of xorshift32.
const SAME_EACH_TIME: &str = "(() => {
    const Real = Date, start = 1526472000000, loaded = performance.now();
    const now = () => start + Math.floor(performance.now() - loaded);
    function Same(...parts) {
        if (!new.target) return new Real(now()).toString();
        return Reflect.construct(Real, parts.length ? parts : [now()], new.target);
    }
    Same.prototype = Real.prototype;
    Same.now = now;
    Same.parse = Real.parse;
    Same.UTC = Real.UTC;
    Object.defineProperty(Real.prototype, 'constructor', { value: Same, writable: true, configurable: true });
    window.Date = Same;
    let state = 0x2545f491;
    Math.random = () => {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        return (state >>> 0) / 0x100000000;
    };
})()";

/// Runs before the screenshot is taken. An endless animation cannot be finished: it is removed.
const STOP: &str = "(() => {
    for (const animation of document.getAnimations()) {
        try { animation.finish(); } catch { animation.cancel(); }
    }
    for (const film of document.querySelectorAll('video, audio, marquee')) {
        if (film.pause) film.pause();
        if (film.stop) film.stop();
    }
    window.scrollTo(0, 0);
    return document.fonts.ready.then(() => new Promise(tell =>
        requestAnimationFrame(() => requestAnimationFrame(() => tell(true)))));
})()";

/// Must be called before the navigation.
pub(crate) async fn prepare(devtools: &mut DevTools, tab: &Tab) -> Result<(), DevToolsError> {
    let reduced = json!({ "features": [{ "name": "prefers-reduced-motion", "value": "reduce" }] });
    tab.call(devtools, "Emulation.setEmulatedMedia", reduced).await?;
    let script = json!({ "source": SAME_EACH_TIME });
    tab.call(devtools, "Page.addScriptToEvaluateOnNewDocument", script)
        .await?;
    Ok(())
}

/// Must be called before the screenshot is taken.
pub(crate) async fn stop(devtools: &mut DevTools, tab: &Tab) -> Result<(), DevToolsError> {
    match tab.evaluate_apart(devtools, STOP).await {
        // A document without fonts or elements, such as that of a picture, has no motion.
        Err(DevToolsError::Refused { .. }) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits until the page has had no pending requests for a while.
pub(crate) async fn until_quiet(
    devtools: &mut DevTools,
    tab: &Tab,
    requests: &mut Requests,
) -> Result<(), DevToolsError> {
    let limit = Instant::now() + QUIET_LIMIT;
    let mut quiet_at = Instant::now() + QUIET;
    loop {
        let until = if requests.open() == 0 {
            quiet_at.min(limit)
        } else {
            limit
        };
        match timeout_at(until, devtools.next()).await {
            Err(_) => return Ok(()),
            Ok(Ok(Incoming::Event(event))) if event.session.as_deref() == Some(&tab.session) => {
                if event.method.starts_with("Network.") {
                    requests.note(&event.method, &event.params);
                    quiet_at = Instant::now() + QUIET;
                }
            }
            Ok(Ok(Incoming::Event(_) | Incoming::Answer(..))) => {}
            Ok(Err(error)) => return Err(error),
        }
    }
}
