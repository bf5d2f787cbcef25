//! Proof that a task runs.
use tokio::sync::{mpsc, oneshot};

/// Asks a task whether it runs.
#[derive(Clone, Debug)]
pub struct LivenessProbe(mpsc::Sender<oneshot::Sender<()>>);

/// The task's end of a [`LivenessProbe`].
#[derive(Debug)]
pub struct Probed(mpsc::Receiver<oneshot::Sender<()>>);

/// Creates a probe and its other end.
pub fn liveness_probe() -> (LivenessProbe, Probed) {
    // One question at a time; a further one waits for its answer.
    let (asks, asked) = mpsc::channel(1);
    (LivenessProbe(asks), Probed(asked))
}

impl LivenessProbe {
    /// Waits until the task answers; completes also if the task has ended ([`Self::ended`]).
    pub async fn answered(&self) {
        let (reply, answer) = oneshot::channel();
        if self.0.send(reply).await.is_ok() {
            let _ended = answer.await;
        }
    }

    /// Waits until the task has ended, also by a panic.
    pub async fn ended(&self) {
        self.0.closed().await;
    }
}

impl Probed {
    /// Runs `work` and answers probes between its steps. While a step does not return, as in an endless loop
    /// or in a call that blocks, and while the executor does not run the task at all, no probe is answered.
    pub async fn during<F: Future>(mut self, work: F) -> F::Output {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                output = &mut work => return output,
                Some(reply) = self.0.recv() => {
                    // The asker may have given up.
                    let _gone = reply.send(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::mpsc::channel, time::Duration};

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_task_that_waits_answers_and_an_ended_one_completes_the_question() {
        let (ask, asked) = liveness_probe();
        let task = tokio::spawn(asked.during(pending::<()>()));
        ask.answered().await;
        ask.answered().await;
        task.abort();
        let _aborted = task.await;
        ask.answered().await;
        ask.ended().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_task_that_hangs_does_not_answer() {
        let (ask, asked) = liveness_probe();
        let (release, held) = channel::<()>();
        let (hanging, hangs) = oneshot::channel();
        let task = tokio::spawn(asked.during(async move {
            tokio::task::yield_now().await;
            let _told = hanging.send(());
            // Blocks its thread, as an endless loop does.
            let _released = held.recv();
            pending::<()>().await;
        }));
        hangs.await.unwrap();
        // Long enough for an answer on a busy machine, if there were one.
        let answer = timeout(Duration::from_millis(200), ask.answered()).await;
        assert!(answer.is_err(), "a task that hangs answered");
        drop(release);
        ask.answered().await;
        task.abort();
    }
}
