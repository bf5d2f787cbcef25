//! Medians of what pictures need, as `longhaul-bench images --task fit` takes them.
//!
//! From 817 pictures: 571 of the recorded pages of 12 sites, and 66 of Debian's packages of wallpapers and of scikit-image,
//! the large ones at five widths from 60 to 1000 pixels.

/// Kinds of content (photo, line art, text, mixed) by size (icon, thumbnail, inline, large).
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
