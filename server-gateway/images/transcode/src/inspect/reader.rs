//! Bounds-checked cursor over bytes.
use super::InspectError;

/// Unread bytes of an input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], InspectError> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(InspectError::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    pub(super) fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], InspectError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(InspectError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn byte(&mut self) -> Result<u8, InspectError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16_be(&mut self) -> Result<u16, InspectError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u16_le(&mut self) -> Result<u16, InspectError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u24_le(&mut self) -> Result<u32, InspectError> {
        let [low, middle, high] = self.array()?;
        Ok(u32::from_le_bytes([low, middle, high, 0]))
    }

    pub(super) fn u32_be(&mut self) -> Result<u32, InspectError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u32_le(&mut self) -> Result<u32, InspectError> {
        self.array().map(u32::from_le_bytes)
    }
}
