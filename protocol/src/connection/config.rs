//! Limits and timing of a connection, with defaults.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, LinkProfile};

use crate::{crypto::RekeyLimits, streams::StreamLimits, wire::Parameters};

/// What an agent assumes of the gateway before RESP: a gateway allows at least this much (streams of early data are
/// requests of a few hundred bytes).
pub const EARLY_STREAM_WINDOW: ByteCount = ByteCount::kib(64);
/// Streams that an agent may open before RESP.
pub const EARLY_STREAMS: u64 = 64;

/// Limits and timing of connections. The defaults suit an agent; a gateway with many sessions wants smaller buffers.
#[derive(Clone, Debug)]
pub struct TransportConfig {
    /// Bytes of one stream that are buffered beyond what its user has read. At least [`EARLY_STREAM_WINDOW`]. The default
    /// covers 20 Mbit/s at 600 ms for the five round trips that the third repair of a packet takes.
    pub stream_window: ByteCount,
    /// Streams that the peer may have open. At least [`EARLY_STREAMS`].
    pub max_streams: u64,
    /// The largest UDP payload that is sent and received (transport.md 1 and 7.5). The default is that of Ethernet.
    pub max_udp_payload: u16,
    /// Received data in memory, of all streams together: credit shrinks as it fills.
    pub receive_buffer: ByteCount,
    /// Data in memory until it is acknowledged, of one sending stream.
    pub send_buffer: ByteCount,
    /// The same for all sending streams together (transport.md 7.3: kept through a stall).
    pub send_buffer_total: ByteCount,
    /// Rate above which this side never sends, whatever the peer grants or its profile says.
    pub max_rate: BitRate,
    /// Interval of PINGs of an idle agent: below the 30 s after which many NATs forget a mapping (RFC 8085 section 3.5).
    pub keepalive: Duration,
    /// Time without any authentic packet after which a connection is given up: see [`TransportConfig::agent`] and
    /// [`TransportConfig::gateway`].
    pub max_silence: Duration,
    /// When the keys are replaced (transport.md 2.3).
    pub rekey: RekeyLimits,
    /// What is known of the agent's hop.
    pub profile: Option<LinkProfile>,
}

impl TransportConfig {
    /// Defaults of an agent: a silent session is kept for 24 hours (transport.md 7.3).
    pub const fn agent(profile: Option<LinkProfile>) -> Self {
        Self {
            stream_window: ByteCount::mib(8),
            max_streams: 256,
            max_udp_payload: 1472,
            receive_buffer: ByteCount::mib(16),
            send_buffer: ByteCount::mib(8),
            send_buffer_total: ByteCount::mib(16),
            max_rate: BitRate::bps(1_000_000_000),
            keepalive: Duration::from_secs(25),
            max_silence: Duration::from_secs(24 * 3600),
            rekey: RekeyLimits::RECOMMENDED,
            profile,
        }
    }

    /// Defaults of a gateway: a silent session is kept for 30 minutes (transport.md 7.3), and what it holds of
    /// unacknowledged responses is bounded more tightly.
    pub const fn gateway() -> Self {
        Self {
            stream_window: ByteCount::mib(1),
            receive_buffer: ByteCount::mib(4),
            send_buffer_total: ByteCount::mib(8),
            max_silence: Duration::from_secs(30 * 60),
            ..Self::agent(None)
        }
    }

    /// The parameters that tell the peer about these limits (transport.md 3.6).
    pub const fn parameters(&self) -> Parameters {
        Parameters {
            stream_window: self.stream_window,
            max_streams: self.max_streams,
            max_udp_payload: self.max_udp_payload,
            profile: self.profile,
        }
    }

    pub(crate) const fn stream_limits(&self) -> StreamLimits {
        StreamLimits {
            stream_window: self.stream_window,
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
