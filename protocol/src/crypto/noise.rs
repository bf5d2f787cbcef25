//! The handshake: Noise_IK_25519_ChaChaPoly_BLAKE2s (transport.md section 3; the Noise Protocol Framework,
//! revision 34).
use longhaul_types::{PublicKey, SecretKey};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use snow::{
    Builder, HandshakeState,
    params::{CipherChoice, DHChoice, HashChoice, NoiseParams},
    resolvers::{CryptoResolver, DefaultResolver},
    types::{Cipher, Dh, Hash, Random},
};
use zeroize::Zeroizing;

use super::aead::PacketKey;
use crate::wire::{init, resp};

const PATTERN: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"longhaul transport 1";

/// Error: a handshake message does not authenticate, or the state of the handshake is invalid.
#[derive(Debug, thiserror::Error)]
#[error("the handshake message does not authenticate")]
pub struct NoiseError(#[from] snow::Error);

/// Key and index of the agent's EARLY packets.
#[derive(Clone, Debug)]
pub struct EarlyKey {
    /// Key of EARLY packets.
    pub key: PacketKey,
    /// Receiver index of EARLY packets: the first 4 bytes of message 1, a part of the ephemeral public key.
    pub index: u32,
}

/// Keys of a completed handshake.
#[derive(Clone)]
pub struct SessionKeys {
    /// Key of packets from the agent.
    pub agent_to_gateway: PacketKey,
    /// Key of packets from the gateway.
    pub gateway_to_agent: PacketKey,
    /// Exporter secret.
    pub exporter: Zeroizing<[u8; 32]>,
}

impl std::fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKeys(<secret>)")
    }
}

/// Primitives of `snow` with ephemeral keys from a given seed.
struct SeededResolver(Zeroizing<[u8; 32]>);

struct SeededRandom(ChaCha20Rng);

impl Random for SeededRandom {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill_bytes(dest);
        Ok(())
    }
}

impl CryptoResolver for SeededResolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(SeededRandom(ChaCha20Rng::from_seed(*self.0))))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

fn builder<'a>(
    secret: &'a SecretKey,
    prologue: &'a [u8],
    seed: Zeroizing<[u8; 32]>,
) -> Result<Builder<'a>, NoiseError> {
    let params: NoiseParams = PATTERN.parse().map_err(NoiseError)?;
    let builder = Builder::with_resolver(params, Box::new(SeededResolver(seed)));
    Ok(builder.local_private_key(secret.as_bytes())?.prologue(prologue)?)
}

fn prologue(clear: &[u8]) -> Vec<u8> {
    [PROLOGUE, clear].concat()
}

/// Both keys of the Noise split at the current point of the handshake, as material for `derive_key`.
fn split_material(state: &mut HandshakeState) -> Zeroizing<[u8; 64]> {
    let (first, second) = state.dangerously_get_raw_split();
    let mut material = Zeroizing::new([0; 64]);
    material[..32].copy_from_slice(&first);
    material[32..].copy_from_slice(&second);
    material
}

fn early_key(state: &mut HandshakeState, message: &[u8]) -> EarlyKey {
    let index = message
        .first_chunk()
        .map_or(0, |first| u32::from_be_bytes(*first));
    EarlyKey {
        key: PacketKey::derive("longhaul 1 early", &*split_material(state)),
        index,
    }
}

fn session_keys(state: &mut HandshakeState) -> SessionKeys {
    let material = split_material(state);
    // The handshake hash alone is not secret: everybody who knows the gateway's key can compute it from the
    // messages.
    let mut exported = Zeroizing::new(material.to_vec());
    exported.extend_from_slice(state.get_handshake_hash());
    let exporter = blake3::derive_key("longhaul 1 exporter", &exported);
    SessionKeys {
        agent_to_gateway: PacketKey::derive("longhaul 1 agent to gateway", &*material),
        gateway_to_agent: PacketKey::derive("longhaul 1 gateway to agent", &*material),
        exporter: Zeroizing::new(exporter),
    }
}

/// Agent side of a handshake.
pub struct Initiator(HandshakeState);

impl std::fmt::Debug for Initiator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Initiator")
    }
}

impl Initiator {
    /// Appends message 1 with `payload` to `out`. `clear` contains the bytes before the message in the INIT.
    /// `seed` determines the ephemeral key and is used for one handshake only. The early key depends on
    /// neither `clear` nor `payload`.
    ///
    /// # Errors
    /// The payload does not fit a Noise message.
    pub fn start(
        secret: &SecretKey,
        gateway: &PublicKey,
        seed: Zeroizing<[u8; 32]>,
        clear: &[u8],
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(Self, EarlyKey), NoiseError> {
        let prologue = prologue(clear);
        let mut state = builder(secret, &prologue, seed)?
            .remote_public_key(gateway.as_bytes())?
            .build_initiator()?;
        let begin = out.len();
        write(&mut state, payload, init::NOISE_OVERHEAD, out)?;
        let early = early_key(&mut state, &out[begin..]);
        Ok((Self(state), early))
    }

    /// Processes message 2; returns its payload and the keys.
    ///
    /// # Errors
    /// The message does not authenticate. The handshake continues to wait for a valid one.
    pub fn finish(&mut self, message: &[u8]) -> Result<(Vec<u8>, SessionKeys), NoiseError> {
        let payload = read(&mut self.0, message)?;
        Ok((payload, session_keys(&mut self.0)))
    }
}

/// Gateway side of a handshake, after message 1.
pub struct Responder(HandshakeState);

impl std::fmt::Debug for Responder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Responder")
    }
}

/// Contents of message 1.
#[derive(Debug)]
pub struct Opening {
    /// State of the handshake, for message 2.
    pub responder: Responder,
    /// Public key of the device that created the message; the message may be a replay.
    pub device: PublicKey,
    /// Key of EARLY packets.
    pub early: EarlyKey,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Responder {
    /// Processes message 1, which follows the clear bytes of its INIT.
    ///
    /// # Errors
    /// The message does not authenticate.
    pub fn read(
        secret: &SecretKey,
        seed: Zeroizing<[u8; 32]>,
        clear: &[u8],
        message: &[u8],
    ) -> Result<Opening, NoiseError> {
        let prologue = prologue(clear);
        let mut state = builder(secret, &prologue, seed)?.build_responder()?;
        let payload = read(&mut state, message)?;
        let key = state.get_remote_static().and_then(|key| key.try_into().ok());
        let device = PublicKey::from_bytes(key.ok_or(NoiseError(snow::Error::Input))?);
        let early = early_key(&mut state, message);
        Ok(Opening {
            responder: Self(state),
            device,
            early,
            payload,
        })
    }

    /// Appends message 2 with `payload` to `out`; returns the keys.
    ///
    /// # Errors
    /// The payload does not fit a Noise message.
    pub fn finish(mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<SessionKeys, NoiseError> {
        write(&mut self.0, payload, resp::NOISE_OVERHEAD, out)?;
        Ok(session_keys(&mut self.0))
    }
}

fn write(
    state: &mut HandshakeState,
    payload: &[u8],
    overhead: usize,
    out: &mut Vec<u8>,
) -> Result<(), NoiseError> {
    let start = out.len();
    out.resize(start + overhead + payload.len(), 0);
    let length = state.write_message(payload, &mut out[start..])?;
    out.truncate(start + length);
    Ok(())
}

fn read(state: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, NoiseError> {
    let mut payload = vec![0; message.len()];
    let length = state.read_message(message, &mut payload)?;
    payload.truncate(length);
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: SecretKey = SecretKey::from_bytes([1; 32]);
    const GATEWAY: SecretKey = SecretKey::from_bytes([2; 32]);

    fn seed(byte: u8) -> Zeroizing<[u8; 32]> {
        Zeroizing::new([byte; 32])
    }

    fn opened_by(sealer: &PacketKey, opener: &PacketKey) -> bool {
        let mut packet = vec![1, 2, 3];
        sealer.seal(9, &mut packet, 0, 1);
        opener.open(9, &mut packet, 1).is_ok()
    }

    fn start(out: &mut Vec<u8>) -> (Initiator, EarlyKey) {
        Initiator::start(&AGENT, &GATEWAY.public(), seed(3), b"clear", b"payload 1", out).unwrap()
    }

    #[test]
    fn both_sides_get_the_same_keys() {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let (mut initiator, early) = start(&mut first);
        assert_eq!(first.len(), init::NOISE_OVERHEAD + 9);
        let opening = Responder::read(&GATEWAY, seed(4), b"clear", &first).unwrap();
        assert_eq!(
            (opening.device, &opening.payload[..]),
            (AGENT.public(), &b"payload 1"[..])
        );
        assert!(opened_by(&early.key, &opening.early.key));
        let gateway = opening.responder.finish(b"payload 2", &mut second).unwrap();
        assert_eq!(second.len(), resp::NOISE_OVERHEAD + 9);
        let (payload, agent) = initiator.finish(&second).unwrap();
        assert_eq!(payload, b"payload 2");
        assert!(opened_by(&agent.agent_to_gateway, &gateway.agent_to_gateway));
        assert!(opened_by(&gateway.gateway_to_agent, &agent.gateway_to_agent));
        assert!(!opened_by(&gateway.gateway_to_agent, &agent.agent_to_gateway));
        assert_eq!(early.index, opening.early.index);
        assert!(!opened_by(&early.key, &gateway.agent_to_gateway));
        assert_eq!(agent.exporter, gateway.exporter);
    }

    #[test]
    fn the_same_seeds_give_the_same_bytes() {
        let (mut first, mut again) = (Vec::new(), Vec::new());
        start(&mut first);
        start(&mut again);
        assert_eq!(first, again);
    }

    #[test]
    fn the_handshake_authenticates_the_clear_bytes_and_keys() {
        let mut first = Vec::new();
        start(&mut first);
        assert!(Responder::read(&GATEWAY, seed(4), b"cleat", &first).is_err());
        assert!(Responder::read(&AGENT, seed(4), b"clear", &first).is_err());
        for cut in 0..first.len() {
            assert!(Responder::read(&GATEWAY, seed(4), b"clear", &first[..cut]).is_err());
        }
    }

    #[test]
    fn a_forged_second_message_leaves_the_handshake_waiting() {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let (mut initiator, _) = start(&mut first);
        let opening = Responder::read(&GATEWAY, seed(4), b"clear", &first).unwrap();
        opening.responder.finish(b"payload 2", &mut second).unwrap();
        for bit in 0..second.len() * 8 {
            let mut forged = second.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            // X25519 ignores bit 255 of a public key, but the handshake hash covers it.
            assert!(initiator.finish(&forged).is_err(), "bit {bit}");
        }
        for cut in 0..second.len() {
            assert!(initiator.finish(&second[..cut]).is_err());
        }
        assert!(initiator.finish(&[0x55; 2000]).is_err());
        assert_eq!(initiator.finish(&second).unwrap().0, b"payload 2");
    }
}
