//! Arbitrary frames in packets that authenticate, as a peer with the right keys can send
//! (docs/protocol/transport.md sections 4 to 7).
//!
//! The input is a list of packets: a byte of options, a length, and this number of bytes of frames.
mod seeds;
mod victim;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use bytes::Bytes;
use longhaul_protocol::{
    connection::{EarlyData, State, TransportConfig},
    crypto::{EpochKeys, Initiator, Mac1Key, PacketKey, ResetKey, Responder},
    endpoint::{
        AgentEndpointConfig, ConnectTo, ConnectionHandle, DeviceStatus, Endpoint, Event,
        GatewayEndpointConfig,
    },
    streams::{Priority, ReadOutcome},
    wire::{
        Acceptance, Activity, Data, EarlyOutcome, Extent, Feedback, Frame, GapRange, Gaps, Init, InitPayload,
        KeyPhase, KeySpace, PacketKind, Parameters, RateFloat, ReceiverIndex, Resp, RespPayload, ShortHeader,
        Stamp, init::InitOutline,
    },
};
use longhaul_types::{BitRate, SecretKey, StreamId, Timestamp, UnixTime};

pub(crate) use seeds::authentic_seeds;
use victim::{STEP, agent, gateway};

/// Maximum number of packets of an input; later ones reach no new code.
const PACKETS: usize = 64;
/// CLOSE, and at most three more for late packets (7.4).
const CLOSES: usize = 4;
/// Options of a packet: idle flag of the sender, increase of the packet number, elapsed time.
const IDLE: u8 = 0x01;
const JUMP: u8 = 0x0e;
const WAIT: u8 = 0x10;

/// Arbitrary frames with the right keys, at a gateway and at an agent: a protocol violation ends the session,
/// and all resources stay bounded.
pub(crate) fn authentic_packets(bytes: &[u8]) {
    for mut victim in [gateway(), agent()] {
        victim.speak();
        victim.settle();
        let mut input = bytes;
        for _ in 0..PACKETS {
            let [choices, length, rest @ ..] = input else {
                break;
            };
            let (frames, rest) = rest.split_at(usize::from(*length).min(rest.len()));
            victim.take(*choices, frames);
            input = rest;
        }
        for _ in 0..20 {
            victim.now += STEP;
            victim.endpoint.handle_timeout(victim.now);
            victim.settle();
        }
    }
}
