//! Byte-exact vectors of every datagram and frame, round trips, and arbitrary input.
mod round_trips;
mod vectors;

fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}
