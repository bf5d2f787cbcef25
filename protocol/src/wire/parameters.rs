//! Transport parameters in the handshake (transport.md section 3.6).
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, LinkProfile};

use super::{
    field::{self, Truncated},
    varint::{self, VarintError},
};

/// Smallest valid maximum UDP payload: below it, headers and tags would be most of every packet.
pub const MIN_UDP_PAYLOAD: u16 = 256;
/// Maximum accepted length of parameters, including fields that a later version appends.
const MAX_LEN: usize = 256;

/// Errors of parsing parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParametersError {
    /// The input ends inside a field.
    #[error("the parameters are cut off")]
    Truncated,
    /// A number is not in its shortest form, or a value is outside its range.
    #[error("a parameter is malformed")]
    Malformed,
}

impl From<VarintError> for ParametersError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            VarintError::NotShortest => Self::Malformed,
        }
    }
}

impl From<Truncated> for ParametersError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// Parameters of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes that the peer may send on a new stream before the first STREAM_LIMIT; whole KiB on the wire.
    pub stream_window: ByteCount,
    /// Total number of streams that the peer may open before the first STREAMS.
    pub max_streams: u64,
    /// Maximum UDP payload that this side receives, in bytes.
    pub max_udp_payload: u16,
    /// Link profile of the agent's hop (RTT in milliseconds on the wire, at least 1); `None` in a RESP.
    pub profile: Option<LinkProfile>,
    /// In INIT: the agent measures an unknown link and asks for a full packet right behind the RESP, and for a
    /// first flight without pacing. In RESP: the gateway does so, and understands TRAIN.
    pub rate_probing: bool,
    /// This side receives DATAGRAM frames; in RESP only if the INIT has the flag.
    pub datagrams: bool,
}

/// Flags of the seventh field.
const RATE_PROBING: u64 = 0x01;
const DATAGRAMS: u64 = 0x02;

impl Parameters {
    /// Appends the length and the fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (down, up, rtt) = self.profile.map_or((0, 0, 0), |profile| {
            let millis = u64::try_from(profile.rtt.as_millis()).unwrap_or(u64::MAX);
            (profile.down.as_bps(), profile.up.as_bps(), millis.max(1))
        });
        let fields = [
            self.stream_window.bytes() / 1024,
            self.max_streams,
            u64::from(self.max_udp_payload),
            down,
            up,
            rtt,
        ];
        // Left out when it is zero: the encoding is then that of peers without the field.
        let flags = [(self.rate_probing, RATE_PROBING), (self.datagrams, DATAGRAMS)];
        let flags = flags
            .iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, flag)| flag)
            .sum::<u64>();
        let fields = fields.into_iter().chain((flags != 0).then_some(flags));
        let length: usize = fields.clone().map(varint::len).sum();
        varint::encode(length as u64, out);
        for field in fields {
            varint::encode(field, out);
        }
    }

    /// Removes parameters from the start of `input`. Bytes after the known fields are ignored.
    ///
    /// # Errors
    /// The parameters are truncated, longer than 256 bytes, or a field is malformed.
    pub fn decode(input: &mut &[u8]) -> Result<Self, ParametersError> {
        let length = usize::try_from(varint::decode(input)?).map_err(|_| ParametersError::Malformed)?;
        if length > MAX_LEN {
            return Err(ParametersError::Malformed);
        }
        let mut fields = field::take(input, length)?;
        let window = varint::decode(&mut fields)?;
        let max_streams = varint::decode(&mut fields)?;
        let payload = varint::decode(&mut fields)?;
        let down = varint::decode(&mut fields)?;
        let up = varint::decode(&mut fields)?;
        let rtt = varint::decode(&mut fields)?;
        let flags = if fields.is_empty() {
            0
        } else {
            varint::decode(&mut fields)?
        };
        let max_udp_payload = u16::try_from(payload).unwrap_or(u16::MAX);
        if max_udp_payload < MIN_UDP_PAYLOAD {
            return Err(ParametersError::Malformed);
        }
        let known = down > 0 && up > 0 && rtt > 0;
        Ok(Self {
            stream_window: ByteCount::kib(window.min(u64::MAX / 1024)),
            max_streams,
            max_udp_payload,
            profile: known.then(|| LinkProfile {
                down: BitRate::bps(down),
                up: BitRate::bps(up),
                rtt: Duration::from_millis(rtt),
            }),
            rate_probing: flags & RATE_PROBING != 0,
            datagrams: flags & DATAGRAMS != 0,
        })
    }
}
