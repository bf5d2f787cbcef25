//! Limits and timing of a connection, with defaults.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, LinkProfile, Technique, Techniques};

use super::RateProbing;
use crate::{
    congestion::{CongestionParameters, Controller, WindowPolicy},
    crypto::RekeyLimits,
    streams::StreamLimits,
    wire::Parameters,
};

/// Stream window that an agent assumes before RESP: every gateway allows at least this much. Streams of early
/// data are requests of a few hundred bytes.
pub const EARLY_STREAM_WINDOW: ByteCount = ByteCount::kib(64);
/// Number of streams that an agent may open before RESP.
pub const EARLY_STREAMS: u64 = 64;

/// Limits and timing of connections. The defaults suit an agent; a gateway with many sessions uses smaller
/// buffers.
#[derive(Clone, Debug)]
pub struct TransportConfig {
    /// Bytes of one stream that are buffered until its user has read a part of them, at least
    /// [`EARLY_STREAM_WINDOW`]. The default leaves twice the data of a round-trip time at 20 Mbit/s and 600 ms behind
    /// the first MiB, after which the limit rises.
    pub stream_window: ByteCount,
    /// Most bytes of one stream that are buffered later beyond what its user has read. The window depends on the free
    /// part of `receive_buffer` (transport.md section 4.3). The default holds the data that arrives in five round-trip
    /// times at 20 Mbit/s and 600 ms: after that time the third retransmission of a lost packet has arrived.
    pub largest_stream_window: ByteCount,
    /// Maximum number of streams that the peer may have open, at least [`EARLY_STREAMS`].
    pub max_streams: u64,
    /// Largest UDP payload that is sent and received (transport.md sections 1 and 7.5). The default fits
    /// Ethernet packets: 1500 bytes less the IPv4 and UDP headers.
    pub max_udp_payload: u16,
    /// Maximum size of received data in memory, for all streams together: the credit shrinks as the buffer
    /// fills. The default has room for eight streams whose users have stopped reading, and for others beside them.
    pub receive_buffer: ByteCount,
    /// Maximum size of unacknowledged data in memory, for one sending stream.
    pub send_buffer: ByteCount,
    /// Maximum size of unacknowledged data in memory, for all sending streams together. The data stays in
    /// memory during a stall (transport.md section 7.3).
    pub send_buffer_total: ByteCount,
    /// Maximum sending rate, whatever the peer grants or the profile contains.
    pub max_rate: BitRate,
    /// Interval of an idle agent's PINGs: below the 30 s after which many NATs drop a mapping (RFC 8085
    /// section 3.5).
    pub keepalive: Duration,
    /// Time without an authenticated packet after which the connection ends: see [`TransportConfig::agent`]
    /// and [`TransportConfig::gateway`].
    pub max_silence: Duration,
    /// The same for a connection with streams in progress besides the control streams, if this is longer: what
    /// they transfer would have to be transferred again.
    pub max_silence_in_use: Duration,
    /// Limits of key updates (transport.md section 2.3).
    pub rekey: RekeyLimits,
    /// Link profile of the agent's hop.
    pub profile: Option<LinkProfile>,
    /// Measurement of a link without a profile (transport.md section 6.1).
    pub rate_probing: RateProbing,
    /// The profile is remembered from an earlier session, and the agent verifies it (transport.md section 6.1).
    pub verify_profile: bool,
    /// DATAGRAM frames are received, and sent to a peer that receives them (transport.md section 4.4).
    pub datagrams: bool,
    /// Constants of the congestion control algorithm. Only simulations change them.
    #[doc(hidden)]
    pub congestion: &'static CongestionParameters,
    /// What this side grants. Only measurements change it.
    #[doc(hidden)]
    pub window: WindowPolicy,
    /// How lost packets are detected. Only measurements change it, at both ends.
    #[doc(hidden)]
    pub loss_detection: LossDetection,
}

/// Detection of lost packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossDetection {
    /// By the receiver, which reports gaps and missing tails (transport.md sections 5.2 and 5.3).
    #[default]
    Reports,
    /// By the sender's probe timeout alone, which repeats one packet at a time.
    Timeouts,
}

impl TransportConfig {
    /// Defaults of an agent: a silent session is kept for 24 hours (transport.md section 7.3).
    pub const fn agent(profile: Option<LinkProfile>) -> Self {
        Self {
            stream_window: ByteCount::mib(4),
            largest_stream_window: ByteCount::mib(8),
            max_streams: 256,
            max_udp_payload: 1472,
            receive_buffer: ByteCount::mib(48),
            send_buffer: ByteCount::mib(8),
            send_buffer_total: ByteCount::mib(16),
            max_rate: BitRate::bps(1_000_000_000),
            keepalive: Duration::from_secs(25),
            max_silence: Duration::from_secs(24 * 3600),
            max_silence_in_use: Duration::from_secs(24 * 3600),
            rekey: RekeyLimits::RECOMMENDED,
            profile,
            rate_probing: RateProbing::Full,
            verify_profile: false,
            datagrams: true,
            congestion: &CongestionParameters::STANDARD,
            window: WindowPolicy::Measured,
            loss_detection: LossDetection::Reports,
        }
    }

    /// Defaults of a gateway: a silent session is kept for 30 minutes, and for 3 hours while something is in
    /// progress (transport.md section 7.3); with smaller buffers.
    pub const fn gateway() -> Self {
        Self {
            stream_window: ByteCount::mib(1),
            largest_stream_window: ByteCount::mib(1),
            receive_buffer: ByteCount::mib(6),
            send_buffer_total: ByteCount::mib(8),
            max_silence: Duration::from_secs(30 * 60),
            max_silence_in_use: Duration::from_secs(3 * 3600),
            ..Self::agent(None)
        }
    }

    /// The same without those of these techniques that belong to the transport, for measurements.
    #[must_use]
    pub const fn without(mut self, techniques: Techniques) -> Self {
        if techniques.contains(Technique::Credit) {
            self.window = WindowPolicy::Initial;
        }
        if techniques.contains(Technique::Nack) {
            self.loss_detection = LossDetection::Timeouts;
        }
        self
    }

    /// Transport parameters with these limits (transport.md section 3.6).
    pub const fn parameters(&self) -> Parameters {
        Parameters {
            stream_window: self.stream_window,
            max_streams: self.max_streams,
            max_udp_payload: self.max_udp_payload,
            profile: self.profile,
            rate_probing: !matches!(self.rate_probing, RateProbing::Off),
            datagrams: self.datagrams,
        }
    }

    /// The controller of incoming data. `incoming` and `outgoing` are the profile's rates.
    pub(crate) fn controller(
        &self,
        profile: Option<&LinkProfile>,
        incoming: Option<BitRate>,
        outgoing: Option<BitRate>,
    ) -> Controller {
        let measured = Controller::new(self.congestion, profile, incoming, outgoing);
        measured.with_policy(self.window, profile, incoming, outgoing)
    }

    pub(crate) const fn stream_limits(&self) -> StreamLimits {
        StreamLimits {
            stream_window: self.stream_window,
            largest_stream_window: self.largest_stream_window,
            receive_buffer: self.receive_buffer,
            max_streams: self.max_streams,
            send_buffer: self.send_buffer,
            send_buffer_total: self.send_buffer_total,
        }
    }
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self::agent(None)
    }
}
