//! Medians of the required qualities, as `longhaul-bench images --task fit` measures them.
//!
//! Measured on 817 images: 571 from the recorded pages of 12 sites, and 66 from Debian's wallpaper packages
//! and scikit-image, the large ones at five widths from 60 to 1000 pixels.

/// Kinds of content (photo, line art, text, mixed) by size class (icon, thumbnail, inline, large).
pub(super) type Table = [[u8; 4]; 4];

pub(super) const HIGH: Table = [
    [67, 67, 76, 78],
    [66, 66, 71, 79],
    [40, 40, 18, 27],
    [66, 66, 77, 81],
];
pub(super) const MEDIUM: Table = [
    [27, 27, 40, 45],
    [20, 20, 26, 35],
    [11, 11, 13, 8],
    [25, 25, 40, 50],
];
pub(super) const LOW: Table = [[8, 8, 17, 19], [8, 8, 8, 8], [8, 8, 8, 8], [8, 8, 12, 19]];
