//! The worker process, which only transcodes images.
use std::{
    io::{self, Read as _},
    time::{Duration, Instant},
};

use longhaul_transcode::{
    EncodeError, Outcome, TranscodeError,
    exchange::{ExchangeError, Job, MAX_JOB, PREFIX, Refusal, Reply, frame_length},
    transcode_until,
};

use super::confinement::Confinement;

/// Errors of a worker. Visible only if somebody starts a worker manually: the gateway only sees that the
/// process ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The gateway has ended, or the operating system rejects a limit.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The input is not a valid job.
    #[error("standard input is not a job from a gateway: {0}")]
    Exchange(#[from] ExchangeError),
}

/// Confines this process irrevocably, then transcodes the images on standard input until it ends.
/// `most_memory` is the maximum memory of any job, in bytes.
///
/// # Errors
/// The process cannot be confined, or its input is not a valid job.
pub fn work(most_memory: u64) -> Result<(), WorkerError> {
    // Before any input is read.
    let confinement = Confinement::enter(most_memory)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    send(&mut output, &Reply::Ready)?;
    let mut prefix = [0; PREFIX];
    loop {
        match input.read_exact(&mut prefix) {
            Ok(()) => {}
            // The gateway closed the worker or has ended.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let mut frame = vec![0; frame_length(prefix, MAX_JOB)?];
        input.read_exact(&mut frame)?;
        let (job, picture) = Job::decode(&frame)?;
        confinement.allow(job.memory, Duration::from_millis(job.milliseconds.into()))?;
        send(&mut output, &reply(&job, picture))?;
        drop(frame);
        // The next image may need more memory than this one.
        confinement.relax()?;
    }
}

fn send(output: &mut impl io::Write, reply: &Reply) -> Result<(), WorkerError> {
    output.write_all(&reply.encode()?)?;
    Ok(output.flush()?)
}

fn reply(job: &Job, picture: &[u8]) -> Reply {
    let begun = Instant::now();
    let max_work = Duration::from_millis(job.milliseconds.into());
    match transcode_until(picture, &job.request, &|| begun.elapsed() >= max_work) {
        Ok(Outcome::Transcoded(variant)) => Reply::Transcoded(variant.webp),
        Ok(Outcome::Kept(_)) => Reply::Kept,
        Err(error) => Reply::Refused(match error {
            TranscodeError::Inspect(_) => Refusal::Header,
            TranscodeError::Limit(_) => Refusal::Limit,
            TranscodeError::Decode(_) => Refusal::Pixels,
            TranscodeError::Encode(EncodeError::Stopped) => Refusal::Time,
            TranscodeError::Encode(EncodeError::Webp(_)) => Refusal::Encoder,
        }),
    }
}
