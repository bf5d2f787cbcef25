//! Allocator of the Brotli decoder that charges a device for what an origin makes it take: windows of up to 16 MiB and
//! prefix codes of up to 4 MiB.
use brotli_decompressor::{Allocator, SliceWrapper, SliceWrapperMut};

use crate::memory_shares::{MemoryReservation, MemoryShare};

/// Tables that every decoder has; without them it cannot be created.
const FREE: usize = 8 * 1024;

/// Charges a share, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChargedAllocator {
    share: Option<MemoryShare>,
    is_refused: bool,
}

/// Memory of the decoder; empty if the share is used up, which the decoder reports as an error.
#[derive(Debug)]
pub(crate) struct Charged<T> {
    cells: Box<[T]>,
    _reservation: Option<MemoryReservation>,
}

impl ChargedAllocator {
    pub(crate) const fn new(share: Option<MemoryShare>) -> Self {
        Self {
            share,
            is_refused: false,
        }
    }

    /// True if the share was used up.
    pub(crate) const fn is_refused(&self) -> bool {
        self.is_refused
    }
}

impl<T> Default for Charged<T> {
    fn default() -> Self {
        Self {
            cells: Box::default(),
            _reservation: None,
        }
    }
}

impl<T> SliceWrapper<T> for Charged<T> {
    fn slice(&self) -> &[T] {
        &self.cells
    }
}

impl<T> SliceWrapperMut<T> for Charged<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.cells
    }
}

impl<T: Clone + Default> Allocator<T> for ChargedAllocator {
    type AllocatedMemory = Charged<T>;

    fn alloc_cell(&mut self, length: usize) -> Charged<T> {
        let bytes = length.saturating_mul(size_of::<T>());
        let share = self.share.as_ref().filter(|_| bytes > FREE);
        let reservation = match share.map(|share| share.reserve(bytes as u64)) {
            Some(None) => {
                self.is_refused = true;
                return Charged::default();
            }
            Some(reserved) => reserved,
            None => None,
        };
        Charged {
            cells: vec![T::default(); length].into_boxed_slice(),
            _reservation: reservation,
        }
    }

    fn free_cell(&mut self, _freed: Charged<T>) {}
}
