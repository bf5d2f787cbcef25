//! Values to start from: one for each level.

/// Kinds of content (photo, line art, text, mixed) by size (icon, thumbnail, inline, large).
pub(super) type Table = [[u8; 4]; 4];

pub(super) const HIGH: Table = [
    [84, 84, 84, 84],
    [84, 84, 84, 84],
    [84, 84, 84, 84],
    [84, 84, 84, 84],
];
pub(super) const MEDIUM: Table = [
    [55, 55, 55, 55],
    [55, 55, 55, 55],
    [55, 55, 55, 55],
    [55, 55, 55, 55],
];
pub(super) const LOW: Table = [
    [25, 25, 25, 25],
    [25, 25, 25, 25],
    [25, 25, 25, 25],
    [25, 25, 25, 25],
];
