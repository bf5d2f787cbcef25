//! Decoded pixels.

/// Channel layout of a [`Raster`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Rgb,
    /// Not premultiplied.
    Rgba,
}

/// Pixels of 8 bits per channel in sRGB; rows from the top, without padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raster {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) layout: Layout,
    pub(crate) data: Vec<u8>,
}

impl Layout {
    pub(crate) fn channels(self) -> usize {
        match self {
            Self::Rgb => 3,
            Self::Rgba => 4,
        }
    }
}

impl Raster {
    pub(crate) fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Bytes per row; at least one, so that it can divide the data.
    pub(crate) fn stride(&self) -> usize {
        (to_usize(self.width) * self.layout.channels()).max(1)
    }

    /// Removes an alpha channel that is opaque everywhere.
    pub(crate) fn without_idle_alpha(self) -> Self {
        if self.layout == Layout::Rgb || self.data.iter().skip(3).step_by(4).any(|&alpha| alpha != u8::MAX) {
            return self;
        }
        let mut data = Vec::with_capacity(self.data.len() / 4 * 3);
        for pixel in self.data.chunks_exact(4) {
            data.extend_from_slice(&pixel[..3]);
        }
        Self {
            layout: Layout::Rgb,
            data,
            ..self
        }
    }
}

/// Converts a `u32` to an index; lossless on all supported targets, whose pointers have at least 32 bits.
pub(crate) fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
