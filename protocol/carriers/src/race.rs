//! Attempts to reach a gateway at several addresses (RFC 8305 section 5).
use std::{net::SocketAddr, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::sleep;

/// Maximum number of addresses that are tried, as over UDP.
pub(crate) const MAX_ADDRESSES: usize = 8;

/// The addresses of a gateway, in the order in which they are tried.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    first: SocketAddr,
    others: Vec<SocketAddr>,
    /// Time between the beginnings of two attempts.
    delay: Duration,
}

impl From<SocketAddr> for Addresses {
    fn from(first: SocketAddr) -> Self {
        Self {
            first,
            others: Vec::new(),
            delay: Duration::ZERO,
        }
    }
}

impl Addresses {
    /// The same addresses and these after them, each once.
    pub(crate) fn then(mut self, others: &[SocketAddr], delay: Duration) -> Self {
        self.delay = delay;
        for other in others {
            let is_known = *other == self.first || self.others.contains(other);
            if !is_known && self.others.len() + 1 < MAX_ADDRESSES {
                self.others.push(*other);
            }
        }
        self
    }

    pub(crate) const fn first(&self) -> SocketAddr {
        self.first
    }

    /// Tries the addresses: each attempt begins `delay` after the one before, or at once when one fails. The first that
    /// succeeds ends the others. Returns its address, or the error of the first attempt that failed.
    pub(crate) async fn race<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        attempt: impl Fn(SocketAddr) -> F,
    ) -> Result<(SocketAddr, T), E> {
        let begin = |address: SocketAddr| {
            let attempt = attempt(address);
            async move { (address, attempt.await) }
        };
        let mut waiting = self.others.iter();
        let mut running = FuturesUnordered::new();
        running.push(begin(self.first));
        let mut failure = None;
        loop {
            let has_more = waiting.len() > 0;
            let ended = tokio::select! {
                ended = running.next() => ended,
                () = sleep(self.delay), if has_more => None,
            };
            match ended {
                Some((address, Ok(reached))) => return Ok((address, reached)),
                Some((_, Err(error))) => {
                    let first = failure.take().unwrap_or(error);
                    if !has_more && running.is_empty() {
                        return Err(first);
                    }
                    failure = Some(first);
                }
                None => {}
            }
            running.extend(waiting.next().map(|address| begin(*address)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::Instant;

    use super::*;

    const DELAY: Duration = Duration::from_millis(250);

    fn addresses(count: u8) -> Addresses {
        let all: Vec<SocketAddr> = (0..count).map(|last| ([192, 0, 2, last], 443).into()).collect();
        Addresses::from(all[0]).then(&all, DELAY)
    }

    /// Runs a race in which the attempt at address n takes so many milliseconds, and fails if they are negative. Returns
    /// the last byte of the winner's address, or that of the reported failure, the duration of the race in ms, and the
    /// attempts.
    async fn race(outcomes: &[i64]) -> (Result<u8, u8>, u128, Vec<u8>) {
        let (begun, tried) = (Instant::now(), Mutex::new(Vec::new()));
        let attempt = |address: SocketAddr| {
            let SocketAddr::V4(v4) = address else {
                panic!("{address}")
            };
            let last = v4.ip().octets()[3];
            tried.lock().unwrap().push(last);
            let takes = outcomes[usize::from(last)];
            async move {
                sleep(Duration::from_millis(takes.unsigned_abs())).await;
                if takes < 0 { Err(last) } else { Ok(last) }
            }
        };
        let count = u8::try_from(outcomes.len()).unwrap();
        let outcome = addresses(count).race(attempt).await.map(|(_, last)| last);
        (outcome, begun.elapsed().as_millis(), tried.into_inner().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_address_is_not_delayed_and_the_next_ones_follow() {
        const NEVER: i64 = 1_000_000;
        assert_eq!(race(&[100, 10, 10]).await, (Ok(0), 100, vec![0]));
        // A silent address costs one delay.
        assert_eq!(race(&[NEVER, 10]).await, (Ok(1), 260, vec![0, 1]));
        assert_eq!(race(&[300, 10]).await, (Ok(1), 260, vec![0, 1]));
        assert_eq!(race(&[300, 100]).await, (Ok(0), 300, vec![0, 1]));
        // A refusal costs none.
        assert_eq!(race(&[-20, 10]).await, (Ok(1), 30, vec![0, 1]));
        assert_eq!(race(&[-20, -30]).await, (Err(0), 50, vec![0, 1]));
        assert_eq!(race(&[-400, -10]).await, (Err(1), 400, vec![0, 1]));
        assert_eq!(race(&[NEVER, -10, 5]).await, (Ok(2), 265, vec![0, 1, 2]));
        assert_eq!(race(&[-7]).await, (Err(0), 7, vec![0]));
    }

    #[test]
    fn each_address_is_tried_once_and_few_of_them() {
        let all = addresses(20);
        assert_eq!(all.others.len() + 1, MAX_ADDRESSES);
        assert_eq!(all.first(), ([192, 0, 2, 0], 443).into());
        assert!(!all.others.contains(&all.first()));
    }
}
