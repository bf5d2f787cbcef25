//! The address cache of RFC 3284 section 5.1, with the sizes of the default code table.
use super::integer;

/// Slots of the near cache.
pub(super) const NEAR: usize = 4;
/// Slots of the same cache.
const SAME: usize = 3 * 256;
/// The address itself.
pub(super) const MODE_SELF: u8 = 0;
/// The distance back from the current position.
pub(super) const MODE_HERE: u8 = 1;
/// First mode of the near cache: the distance from a recent address.
const FIRST_NEAR: u8 = 2;
/// First mode of the same cache: one byte, which completes the slot's number.
pub(super) const FIRST_SAME: u8 = 6;

/// Addresses of earlier copies, equal at both ends. Each window starts with an empty cache.
#[derive(Clone, Debug)]
pub(super) struct AddressCache {
    near: [u32; NEAR],
    next: usize,
    same: Box<[u32; SAME]>,
}

/// A coded address: its mode, which the instruction contains, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodedAddress {
    pub(super) mode: u8,
    value: u32,
}

impl CodedAddress {
    /// Size in the address section, in bytes.
    pub(super) fn size(self) -> u32 {
        if self.mode >= FIRST_SAME {
            1
        } else {
            integer::size(self.value)
        }
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        if self.mode >= FIRST_SAME {
            out.push(self.value.to_le_bytes()[0]);
        } else {
            integer::put(self.value, out);
        }
    }
}

fn slot(address: u32) -> usize {
    address as usize % SAME
}

impl AddressCache {
    pub(super) fn new() -> Self {
        Self {
            near: [0; NEAR],
            next: 0,
            same: Box::new([0; SAME]),
        }
    }

    /// Reads an address of mode `mode` from the address section.
    pub(super) fn take(&mut self, mode: u8, here: u32, addresses: &mut &[u8]) -> Result<u32, AddressFault> {
        let address = if mode >= FIRST_SAME {
            let (byte, rest) = addresses.split_first().ok_or(AddressFault::Exhausted)?;
            *addresses = rest;
            self.same[usize::from(mode - FIRST_SAME) * 256 + usize::from(*byte)]
        } else {
            let value = integer::take(addresses).map_err(|_| AddressFault::Exhausted)?;
            let value = u32::try_from(value).map_err(|_| AddressFault::OutOfRange)?;
            let address = match mode {
                MODE_SELF => Some(value),
                MODE_HERE => here.checked_sub(value),
                near => self.near[usize::from(near - FIRST_NEAR) % NEAR].checked_add(value),
            };
            address.ok_or(AddressFault::OutOfRange)?
        };
        if address >= here {
            return Err(AddressFault::OutOfRange);
        }
        self.remember(address);
        Ok(address)
    }

    /// The shortest form of `address`, which lies before `here`.
    pub(super) fn code(&self, address: u32, here: u32) -> CodedAddress {
        if self.is_same(address) {
            let slot = slot(address);
            return CodedAddress {
                mode: FIRST_SAME + u8::try_from(slot / 256).unwrap_or_default(),
                value: u32::try_from(slot % 256).unwrap_or_default(),
            };
        }
        let mut best = CodedAddress {
            mode: MODE_SELF,
            value: address,
        };
        let near = (FIRST_NEAR..)
            .zip(self.near)
            .map(|(mode, near)| (mode, address.checked_sub(near)));
        for (mode, value) in std::iter::once((MODE_HERE, here.checked_sub(address))).chain(near) {
            if let Some(value) = value
                && value < best.value
            {
                best = CodedAddress { mode, value };
            }
        }
        best
    }

    /// True if the same cache contains the address, which then takes one byte.
    pub(super) fn is_same(&self, address: u32) -> bool {
        self.same[slot(address)] == address
    }

    pub(super) fn remember(&mut self, address: u32) {
        self.near[self.next] = address;
        self.next = (self.next + 1) % NEAR;
        self.same[slot(address)] = address;
    }
}

/// Errors of reading an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressFault {
    Exhausted,
    OutOfRange,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coded_address_is_read_back() {
        let (mut writer, mut reader) = (AddressCache::new(), AddressCache::new());
        let mut out = Vec::new();
        let addresses = [
            0, 5, 100_000, 100_090, 700, 5, 100_000, 99_999, 767, 768, 1535, 300_000, 0, 768,
        ];
        let mut modes = Vec::new();
        for (index, address) in (0..).zip(addresses) {
            let here = 300_010 + 40 * index;
            let coded = writer.code(address, here);
            let before = out.len();
            coded.put(&mut out);
            assert_eq!(out.len() - before, coded.size() as usize);
            assert_eq!(reader.take(coded.mode, here, &mut &out[before..]), Ok(address));
            writer.remember(address);
            modes.push(coded.mode);
        }
        // Slot 0 of the same cache contains address 0 from the start; 5 and 100_000 are repeated.
        assert_eq!(modes[0], FIRST_SAME);
        assert_eq!((modes[5], modes[6]), (FIRST_SAME, FIRST_SAME));
        assert!(modes.contains(&MODE_HERE) && modes.contains(&MODE_SELF));
        assert!(modes.iter().any(|mode| (FIRST_NEAR..FIRST_SAME).contains(mode)));
    }

    #[test]
    fn an_address_beyond_the_position_is_refused() {
        let mut cache = AddressCache::new();
        let mut take = |mode, bytes: &[u8]| cache.take(mode, 10, &mut &bytes[..]);
        assert_eq!(take(MODE_SELF, &[10]), Err(AddressFault::OutOfRange));
        assert_eq!(take(MODE_HERE, &[11]), Err(AddressFault::OutOfRange));
        assert_eq!(take(MODE_HERE, &[0]), Err(AddressFault::OutOfRange));
        assert_eq!(
            take(FIRST_NEAR, &[0x90, 0x80, 0x80, 0x80, 0]),
            Err(AddressFault::OutOfRange)
        );
        assert_eq!(take(FIRST_SAME, &[]), Err(AddressFault::Exhausted));
        assert_eq!(take(MODE_SELF, &[0x80]), Err(AddressFault::Exhausted));
        assert_eq!(take(MODE_HERE, &[10]), Ok(0));
    }
}
