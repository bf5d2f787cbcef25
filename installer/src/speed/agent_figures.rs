//! Figures of the running agent: its counters, and the link during a load.
use std::{future::Future, io, time::Duration};

use longhaul_types::{BitRate, ByteCount};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::SpeedError;
use crate::{agent_state::RunningAgent, http_get};

/// Time in which an agent on this machine answers.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Interval of the samples during a load.
const SAMPLE: Duration = Duration::from_millis(200);
/// Time for which the counters are equal when the hop rests.
const REST: Duration = Duration::from_millis(400);
/// Maximum number of waits for this.
const RESTS: u32 = 15;

/// The link as a session has shown it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkFigures {
    /// Highest rate towards this computer.
    pub rate: Option<BitRate>,
    /// Smallest round-trip time.
    pub min_rtt: Option<Duration>,
    /// Greatest smoothed round-trip time during the loads.
    pub loaded_rtt: Option<Duration>,
    /// The carrier.
    pub carrier: String,
}

impl LinkFigures {
    /// Time that packets waited in queues under load, at most.
    pub fn queue(&self) -> Option<Duration> {
        Some(self.loaded_rtt?.saturating_sub(self.min_rtt?))
    }

    fn add(&mut self, status: &Value) {
        let session = &status["session"];
        let rtt = |key: &str| {
            let milliseconds = session[key].as_f64().filter(|ms| ms.is_finite() && *ms >= 0.0)?;
            Duration::try_from_secs_f64(milliseconds / 1000.0).ok()
        };
        self.rate = status["link_rate_bps"].as_u64().map(BitRate::bps).max(self.rate);
        self.min_rtt = match (rtt("min_rtt_ms"), self.min_rtt) {
            (Some(new), Some(old)) => Some(new.min(old)),
            (new, old) => new.or(old),
        };
        self.loaded_rtt = rtt("rtt_ms").max(self.loaded_rtt);
        if let Some(carrier) = session["carrier"].as_str() {
            carrier.clone_into(&mut self.carrier);
        }
    }
}

/// What an agent has told during the loads.
#[derive(Clone, Debug)]
pub(super) struct AgentFigures {
    agent: RunningAgent,
    pub(super) link: LinkFigures,
}

impl AgentFigures {
    pub(super) fn of(agent: &RunningAgent) -> Self {
        Self {
            agent: agent.clone(),
            link: LinkFigures::default(),
        }
    }

    /// Bytes on the hop so far, in both directions.
    pub(super) async fn hop_bytes(&mut self) -> io::Result<ByteCount> {
        let status = self.status().await?;
        let number = |key: &str| status[key].as_u64().unwrap_or_default();
        self.link.add(&status);
        Ok(ByteCount::new(
            number("bytes_down").saturating_add(number("bytes_up")),
        ))
    }

    /// The same when nothing more arrives: the agent learns of the hop's bytes later than of responses.
    pub(super) async fn resting_hop_bytes(&mut self) -> io::Result<ByteCount> {
        let mut bytes = self.hop_bytes().await?;
        for _ in 0..RESTS {
            sleep(REST).await;
            let now = self.hop_bytes().await?;
            if now == bytes {
                break;
            }
            bytes = now;
        }
        Ok(bytes)
    }

    /// Looks at the agent while `load` runs; `None` if `stop` says so before it ends.
    pub(super) async fn during<T>(
        &mut self,
        load: impl Future<Output = T>,
        mut stop: impl FnMut(ByteCount) -> bool,
    ) -> io::Result<Option<T>> {
        let mut load = std::pin::pin!(load);
        let mut samples = interval(SAMPLE);
        samples.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                done = &mut load => return Ok(Some(done)),
                _ = samples.tick() => {}
            }
            let look = self.hop_bytes();
            let bytes = tokio::select! {
                done = &mut load => return Ok(Some(done)),
                bytes = look => bytes?,
            };
            if stop(bytes) {
                return Ok(None);
            }
        }
    }

    async fn status(&self) -> io::Result<Value> {
        let body = self.get("/status.json").await?;
        Ok(serde_json::from_str(&body)?)
    }

    async fn get(&self, path: &'static str) -> io::Result<String> {
        let (control, token) = (self.agent.control, self.agent.token.clone());
        // The request blocks.
        let asked = tokio::task::spawn_blocking(move || {
            http_get::get(control, &control.to_string(), path, token.as_deref(), ANSWER_TIME)
        });
        let response = asked.await.map_err(io::Error::other)??;
        match response.status {
            200 => Ok(response.body),
            404 => Err(io::ErrorKind::NotFound.into()),
            status => Err(io::Error::other(format!("it answers with status {status}"))),
        }
    }

    /// True if the user pays for each byte of the network, by the agent's settings or by NetworkManager.
    ///
    /// # Errors
    /// The agent does not answer.
    pub(super) async fn is_metered(&self) -> io::Result<bool> {
        let answer: Value = match self.get("/metered.json").await {
            Ok(body) => serde_json::from_str(&body)?,
            // An agent of an earlier version.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(answer["metered"] == true)
    }

    /// The agent's certificate authority, if it accelerates https.
    ///
    /// # Errors
    /// The agent does not answer, or with something else.
    pub(super) async fn authority(&self) -> Result<Option<CertificateDer<'static>>, SpeedError> {
        match self.get("/ca.pem").await {
            Ok(pem) => CertificateDer::from_pem_slice(pem.as_bytes())
                .map(Some)
                .map_err(|error| SpeedError::Authority(error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// True if the user pays for each byte of the agent's network.
///
/// # Errors
/// The agent does not answer.
pub async fn is_metered(agent: &RunningAgent) -> Result<bool, SpeedError> {
    Ok(AgentFigures::of(agent).is_metered().await?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_queue_is_the_time_above_the_smallest_round_trip() {
        let mut link = LinkFigures::default();
        assert_eq!(link.queue(), None);
        link.add(&json!({ "link_rate_bps": null, "session": null }));
        assert_eq!(link, LinkFigures::default());
        link.add(&json!({ "link_rate_bps": 900, "session": { "min_rtt_ms": 70.0, "rtt_ms": 200.0, "carrier": "udp" } }));
        link.add(&json!({ "link_rate_bps": 800, "session": { "min_rtt_ms": 60.0, "rtt_ms": 100.0, "carrier": "tls" } }));
        assert_eq!(link.queue(), Some(Duration::from_millis(140)));
        assert_eq!(
            (link.rate, link.carrier.as_str()),
            (Some(BitRate::bps(900)), "tls")
        );
    }
}
