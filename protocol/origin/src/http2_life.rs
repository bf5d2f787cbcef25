//! What is known of an HTTP/2 connection, for the requests on it.
use std::{
    future::pending,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tokio::time::sleep;

/// Idle time after which a connection may have died without a sign, as in Chromium.
pub(crate) const AT_RISK: Duration = Duration::from_secs(10);
/// Silence of the origin after which a connection that was at risk is dead. The client sends a PING within this time.
const SILENCE: Duration = Duration::from_secs(20);

/// State of an HTTP/2 connection.
#[derive(Debug, Default)]
pub(crate) struct Http2Life {
    has_answered: AtomicBool,
    /// Number of reads from its socket.
    reads: AtomicU64,
}

impl Http2Life {
    /// True if the origin has answered a request on this connection.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered.load(Relaxed)
    }

    pub(crate) fn answered(&self) {
        self.has_answered.store(true, Relaxed);
    }

    /// Counts a read from the connection's socket.
    pub(crate) fn read(&self) {
        self.reads.fetch_add(1, Relaxed);
    }

    /// Returns when the origin was silent for so long that it must be gone; never, if it sends anything before.
    pub(crate) async fn died(&self) {
        let before = self.reads.load(Relaxed);
        sleep(SILENCE).await;
        if self.reads.load(Relaxed) != before {
            pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_dead_after_the_whole_silence_and_only_then() {
        let (life, begun) = (Http2Life::default(), Instant::now());
        life.died().await;
        assert_eq!(begun.elapsed(), SILENCE);
        let reading = async {
            sleep(SILENCE / 2).await;
            life.read();
            pending::<()>().await
        };
        let died = async {
            tokio::select! {
                () = life.died() => {}
                () = reading => {}
            }
        };
        assert!(timeout(100 * SILENCE, died).await.is_err(), "it was not silent");
    }
}
