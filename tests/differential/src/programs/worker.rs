//! A process that loads one URL after the other.
use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// Longest wait for an answer; the process may have to be compiled first.
const LIMIT: Duration = Duration::from_secs(120);

/// A running process; it ends when dropped.
#[derive(Debug)]
pub(super) struct Worker {
    _child: Child,
    urls: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts a process.
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let urls = child.stdin.take().context("stdin is piped")?;
        let answers = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
        Ok(Self {
            _child: child,
            urls,
            answers,
        })
    }

    /// Lets it load a URL.
    pub(super) async fn load(&mut self, url: &str) -> Result<Value> {
        self.urls.write_all(format!("{url}\n").as_bytes()).await?;
        self.urls.flush().await?;
        let line = timeout(LIMIT, self.answers.next_line())
            .await
            .context("no answer")??;
        Ok(serde_json::from_str(&line.context("the program ended")?)?)
    }
}
