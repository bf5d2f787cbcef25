//! What a session finds out about its network, for the memory of networks. It is noted at once and written to the disk later:
//! a change of the network is told to the session in between.
use std::{sync::Arc, time::Duration};

use longhaul_driver::ConnectionStats;
use parking_lot::Mutex;
use tokio::{task::JoinHandle, time::Instant};
use tracing::info;

use super::LinkTracker;
use crate::{
    gateway::{carriers::UsedCarrier, state::LinkKnowledge},
    networks::{Attachment, NetworkMemory, Recorded},
};

/// Time between two records of a long session: what a killed agent loses.
const RECORD_INTERVAL: Duration = Duration::from_secs(60);

/// A note that has to be written.
type Note = Box<dyn FnOnce(&NetworkMemory) + Send + Sync>;

/// The notes of the current session.
pub(super) struct Records {
    /// What was recorded for this session in this network.
    recorded: Arc<Mutex<Recorded>>,
    recorded_at: Instant,
    notes: Vec<Note>,
    /// Notes that are being written.
    writing: Option<JoinHandle<()>>,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            recorded: Arc::default(),
            recorded_at: Instant::now(),
            notes: Vec::new(),
            writing: None,
        }
    }
}

impl Records {
    /// Begins the records of a session in a network. Earlier notes stay.
    pub(super) fn begin(&mut self) {
        self.recorded = Arc::default();
        self.recorded_at = Instant::now();
    }

    /// True if the session was not recorded for some time.
    pub(super) fn is_due(&self) -> bool {
        self.recorded_at.elapsed() >= RECORD_INTERVAL
    }

    fn note(&mut self, note: impl FnOnce(&NetworkMemory) + Send + Sync + 'static) {
        self.notes.push(Box::new(note));
    }

    /// Writes all notes in their order. If the future is dropped, the notes are written nevertheless, and the next call waits
    /// for them.
    async fn write(&mut self, memory: &NetworkMemory) {
        self.written().await;
        if self.notes.is_empty() {
            return;
        }
        let (notes, memory) = (std::mem::take(&mut self.notes), memory.clone());
        self.writing = Some(tokio::task::spawn_blocking(move || {
            for note in notes {
                note(&memory);
            }
        }));
        self.written().await;
    }

    async fn written(&mut self) {
        if let Some(writing) = &mut self.writing {
            // A panic in it is reported by the runtime.
            let _written = writing.await;
            self.writing = None;
        }
    }
}

impl LinkTracker {
    /// Writes what was noted.
    pub(in crate::gateway) async fn write_records(&mut self) {
        self.records.write(&self.memory).await;
    }

    /// Notes and writes what the session has found out about the link of the current network.
    pub(in crate::gateway) async fn record(&mut self, stats: &ConnectionStats) {
        self.note_stats(stats);
        self.write_records().await;
    }

    /// Notes what the session has found out about the link of the current network.
    pub(super) fn note_stats(&mut self, stats: &ConnectionStats) {
        self.compare(stats);
        if !self.memory.is_on() || stats.packets_received == 0 {
            return;
        }
        let mut stats = *stats;
        // Only a start at the remembered rate says something about this rate.
        stats.link.started_too_fast &= self.knowledge == LinkKnowledge::Remembered;
        let recorded = Arc::clone(&self.records.recorded);
        self.note_of_network(move |memory, network| memory.record(network, &mut recorded.lock(), &stats));
        self.records.recorded_at = Instant::now();
    }

    /// Notes what has become of the carriers of the session since the last look.
    pub(super) fn note_session(&mut self, stats: &ConnectionStats, worse_returns: u64, is_trying: bool) {
        let uses = UsedCarrier::of(stats);
        if std::mem::replace(&mut self.worse_returns, worse_returns) < worse_returns {
            if self.network.is_some() {
                info!("UDP carries less than the carrier before in this network: it is avoided for 24 h");
            }
            self.note_of_network(NetworkMemory::record_worse_udp);
            // It answers, so that this is no failure of UDP.
            self.uses = self.uses.map(|_| uses);
        }
        if is_trying {
            return;
        }
        let Some(before) = self.uses.as_mut().map(|before| std::mem::replace(before, uses)) else {
            return;
        };
        if before == UsedCarrier::Udp && uses != UsedCarrier::Udp {
            self.note_carrier(uses);
        } else if before != uses && uses != UsedCarrier::Udp {
            self.note_link(uses);
        }
    }

    /// Notes which carrier works in the current network.
    pub(super) fn note_carrier(&mut self, uses: UsedCarrier) {
        self.note_of_network(move |memory, network| {
            memory.record_udp(network, uses == UsedCarrier::Udp);
            if uses != UsedCarrier::Udp {
                memory.record_quic(network, uses == UsedCarrier::Quic);
            }
        });
    }

    /// Notes which carrier works in the current network beside UDP, of which nothing is known.
    pub(super) fn note_link(&mut self, uses: UsedCarrier) {
        self.note_of_network(move |memory, network| memory.record_quic(network, uses == UsedCarrier::Quic));
    }

    fn note_of_network(&mut self, note: impl FnOnce(&NetworkMemory, &Attachment) + Send + Sync + 'static) {
        if let Some(network) = self.network.clone() {
            self.records.note(move |memory| note(memory, &network));
        }
    }
}
