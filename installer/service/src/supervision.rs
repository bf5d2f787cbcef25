//! The life of a service: ready, reloads, the end.
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tracing::{error, info, warn};

use crate::{Exit, Reloaded, ServiceManager, Signal, Signals, service_manager::Notification};

/// Longest time for the orderly end: longer than closing sessions (0.2 s) and writing the cache take on a slow
/// disk, and shorter than the 90 s after which systemd kills a service.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// A running service.
pub trait Service {
    /// Reads the configuration again and applies it to new work. A wrong configuration changes nothing.
    fn reload(&self) -> impl Future<Output = Reloaded>;

    /// Completes when every task whose hang makes the service useless has answered a [`LivenessProbe`](crate::LivenessProbe).
    fn answer(&self) -> impl Future<Output = ()>;

    /// Completes if a task without which the service is useless has ended by itself.
    fn failed(&self) -> impl Future<Output = ()>;

    /// Completes when the service has nothing more to do and should end in order.
    fn finished(&self) -> impl Future<Output = ()> {
        std::future::pending()
    }

    /// Ends in order: closes sessions, stores what has to be stored.
    fn stop(self) -> impl Future<Output = ()>;
}

/// End of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// In order.
    InOrder,
    /// The orderly end took too long.
    Late,
    /// A second stop signal arrived; the exit status for it.
    AtOnce(u8),
    /// A task without which the service is useless ended by itself.
    Failed,
}

impl From<Ended> for Exit {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::InOrder => Self::Success,
            Ended::Late | Ended::Failed => Self::Failure,
            Ended::AtOnce(status) => Self::Signal(status),
        }
    }
}

/// Runs a service until a stop signal. `status` tells people, through the service manager, where it serves.
///
/// The watchdog's message is sent from this function, after [`Service::answer`]: it fails to appear if the
/// executor, one of the probed tasks or this function hangs.
pub async fn serve(
    service: impl Service,
    mut signals: Signals,
    manager: &ServiceManager,
    status: String,
) -> Ended {
    serve_with(service, async || signals.next().await, manager, status).await
}

async fn serve_with<S: Service>(
    service: S,
    mut next: impl AsyncFnMut() -> Signal,
    manager: &ServiceManager,
    status: String,
) -> Ended {
    (manager.send)(&Notification::Ready(status));
    let mut watchdog = Watchdog::new(manager);
    loop {
        let event = async {
            tokio::select! {
                signal = next() => Event::Signal(signal),
                () = service.finished() => Event::Finished,
                () = service.failed() => Event::Failed,
            }
        };
        match watchdog.during(event, &service).await {
            Event::Signal(Signal::Reload) => {
                (manager.send)(&Notification::Reloading);
                let Reloaded { status } = watchdog.during(service.reload(), &service).await;
                (manager.send)(&Notification::Ready(status));
            }
            Event::Signal(Signal::Stop(_)) => {
                info!("a stop signal arrived: the program ends; a second one ends it at once");
                break;
            }
            Event::Finished => {
                info!("the program has nothing more to do and ends");
                break;
            }
            Event::Failed => {
                error!(
                    "a task that the program needs has ended: this is a defect of the program, which ends now"
                );
                return Ended::Failed;
            }
        }
    }
    (manager.send)(&Notification::Stopping);
    let second = async {
        loop {
            if let Signal::Stop(status) = next().await {
                return status;
            }
        }
    };
    tokio::select! {
        ended = timeout(STOP_LIMIT, service.stop()) => match ended {
            Ok(()) => Ended::InOrder,
            Err(_) => {
                warn!(limit = ?STOP_LIMIT, "the orderly end takes too long");
                Ended::Late
            }
        },
        status = second => Ended::AtOnce(status),
    }
}

/// What a running service waits for.
enum Event {
    Signal(Signal),
    Finished,
    Failed,
}

/// Sends the watchdog's messages.
struct Watchdog<'a> {
    manager: &'a ServiceManager,
    due: Option<Instant>,
}

impl<'a> Watchdog<'a> {
    fn new(manager: &'a ServiceManager) -> Self {
        let due = manager.interval().map(|_| Instant::now());
        Self { manager, due }
    }

    /// Waits for a future and sends messages meanwhile.
    async fn during<F: Future>(&mut self, future: F, service: &impl Service) -> F::Output {
        tokio::pin!(future);
        loop {
            tokio::select! {
                output = &mut future => return output,
                () = due(self.due, service) => {
                    (self.manager.send)(&Notification::Alive);
                    self.due = self.manager.interval().map(|interval| Instant::now() + interval);
                }
            }
        }
    }
}

/// Completes when a message is due and the service has answered; never without a watchdog.
async fn due(at: Option<Instant>, service: &impl Service) {
    match at {
        Some(at) => {
            sleep_until(at).await;
            service.answer().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc};

    use parking_lot::Mutex;

    use tokio::{
        sync::{mpsc, watch},
        task::LocalSet,
    };

    use super::*;

    /// A service whose answers a test withholds.
    struct Fake {
        answers: watch::Receiver<bool>,
        fails: watch::Receiver<bool>,
        ends: bool,
    }

    impl Service for Fake {
        async fn reload(&self) -> Reloaded {
            Reloaded {
                status: "reloaded".to_owned(),
            }
        }

        async fn answer(&self) {
            let mut answers = self.answers.clone();
            let closed = answers.wait_for(|answers| *answers).await;
            drop(closed);
        }

        async fn failed(&self) {
            let mut fails = self.fails.clone();
            let closed = fails.wait_for(|fails| *fails).await;
            drop(closed);
        }

        async fn stop(self) {
            if !self.ends {
                pending().await
            }
        }
    }

    struct Run {
        sent: Arc<Mutex<Vec<Notification>>>,
        signals: mpsc::Sender<Signal>,
        answers: watch::Sender<bool>,
        fails: watch::Sender<bool>,
        ended: tokio::task::JoinHandle<Ended>,
    }

    impl Run {
        fn start(watchdog: Option<Duration>, ends: bool) -> Self {
            let sent = Arc::new(Mutex::new(Vec::new()));
            let list = Arc::clone(&sent);
            let (signals, mut received) = mpsc::channel(8);
            let (answers, answering) = watch::channel(true);
            let (fails, failing) = watch::channel(false);
            let ended = tokio::task::spawn_local(async move {
                let manager = ServiceManager {
                    send: Box::new(move |notification| list.lock().push(notification.clone())),
                    watchdog,
                };
                let service = Fake {
                    answers: answering,
                    fails: failing,
                    ends,
                };
                let next = async || match received.recv().await {
                    Some(signal) => signal,
                    None => pending().await,
                };
                serve_with(service, next, &manager, "serving".to_owned()).await
            });
            Self {
                sent,
                signals,
                answers,
                fails,
                ended,
            }
        }

        fn alive(&self) -> usize {
            let sent = self.sent.lock();
            sent.iter().filter(|sent| **sent == Notification::Alive).count()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_manager_is_told_readiness_reload_and_the_end() {
        LocalSet::new()
            .run_until(async {
                let run = Run::start(None, true);
                run.signals.send(Signal::Reload).await.unwrap();
                run.signals.send(Signal::Stop(143)).await.unwrap();
                assert_eq!(run.ended.await.unwrap(), Ended::InOrder);
                let ready = |text: &str| Notification::Ready(text.to_owned());
                let expected = [
                    ready("serving"),
                    Notification::Reloading,
                    ready("reloaded"),
                    Notification::Stopping,
                ];
                assert_eq!(*run.sent.lock(), expected);
            })
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_watchdog_is_told_at_half_its_time_while_the_service_answers() {
        LocalSet::new()
            .run_until(async {
                let run = Run::start(Some(Duration::from_secs(20)), true);
                tokio::time::advance(Duration::from_millis(1)).await;
                let started = run.alive();
                for count in 1..4 {
                    timeout(Duration::from_secs(10), pending::<()>())
                        .await
                        .unwrap_err();
                    assert_eq!(run.alive(), started + count);
                }
                run.answers.send_replace(false);
                timeout(Duration::from_secs(100), pending::<()>())
                    .await
                    .unwrap_err();
                assert_eq!(run.alive(), started + 3, "a service that hangs is not alive");
                run.answers.send_replace(true);
                timeout(Duration::from_millis(1), pending::<()>())
                    .await
                    .unwrap_err();
                assert_eq!(run.alive(), started + 4);
            })
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_ends_by_itself_ends_the_program() {
        LocalSet::new()
            .run_until(async {
                let run = Run::start(None, true);
                run.fails.send_replace(true);
                assert_eq!(run.ended.await.unwrap(), Ended::Failed);
            })
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_stop_signal_and_the_limit_end_the_program() {
        LocalSet::new()
            .run_until(async {
                let run = Run::start(None, false);
                run.signals.send(Signal::Stop(143)).await.unwrap();
                run.signals.send(Signal::Reload).await.unwrap();
                run.signals.send(Signal::Stop(130)).await.unwrap();
                assert_eq!(run.ended.await.unwrap(), Ended::AtOnce(130));
                let run = Run::start(None, false);
                run.signals.send(Signal::Stop(143)).await.unwrap();
                assert_eq!(run.ended.await.unwrap(), Ended::Late);
            })
            .await;
    }
}
