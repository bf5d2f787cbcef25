//! Keys that the session derives from the transport's exporter secret.

/// Derives the key of the checks of body windows (docs/protocol/body.md section 2) from the exporter secret of the
/// session.
pub fn window_key(exporter_secret: &[u8]) -> [u8; 32] {
    blake3::derive_key("longhaul 1 window", exporter_secret)
}
