//! Holding a page still, so that two pictures of it differ only where its content does.
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::{
    devtools::{DevTools, DevToolsError, Incoming},
    requests::Requests,
    tab::Tab,
};

/// A page is quiet when it has waited for nothing for so long.
const QUIET: Duration = Duration::from_millis(500);
/// A page that is never quiet, because it polls or asks for what never comes, has its picture taken after this.
const QUIET_LIMIT: Duration = Duration::from_secs(30);
/// Animated pictures show their first frame: blink's `ImageAnimationPolicy::kNoAnimation`.
pub(crate) const FLAG: &str = "--blink-settings=imageAnimationPolicy=2";

/// What moves by itself in a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Motion {
    /// Everything, as users see it.
    #[default]
    AsUsual,
    /// Nothing: scripts see a clock that begins at the same time in each load and random numbers that repeat,
    /// `prefers-reduced-motion` is said, animated pictures stand, and before its picture is taken a page is waited for
    /// until it asks for nothing more, its animations are ended, films stopped, and it is scrolled to its beginning.
    ///
    /// Scripts may so ask for other objects than they do as usual: times are to be compared among such loads only.
    Still,
}

/// Runs before every script of the page: the clock begins at noon of a Wednesday, and goes on as the real one does, since
/// scripts wait for it. Random numbers are those of xorshift32.
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

/// Runs before the picture is taken. An animation without end cannot be finished: it is taken away.
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

/// To be called before the navigation.
pub(crate) async fn prepare(devtools: &mut DevTools, tab: &Tab) -> Result<(), DevToolsError> {
    let reduced = json!({ "features": [{ "name": "prefers-reduced-motion", "value": "reduce" }] });
    tab.call(devtools, "Emulation.setEmulatedMedia", reduced).await?;
    let script = json!({ "source": SAME_EACH_TIME });
    tab.call(devtools, "Page.addScriptToEvaluateOnNewDocument", script)
        .await?;
    Ok(())
}

/// To be called before the picture is taken.
pub(crate) async fn stop(devtools: &mut DevTools, tab: &Tab) -> Result<(), DevToolsError> {
    match tab.evaluate_apart(devtools, STOP).await {
        // A document without fonts or elements, such as a picture's own, has nothing that moves.
        Err(DevToolsError::Refused { .. }) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits until the page has asked for nothing, and waited for nothing, for a while.
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
