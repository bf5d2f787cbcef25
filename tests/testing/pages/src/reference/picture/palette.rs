//! Colour tables: median cut (Heckbert, 1982), and ordered dithering.
use super::raster::{Colour, Raster};
use crate::reference::numbers::{byte, float};

/// A picture of indices into a colour table.
pub(super) struct Indexed {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) colours: Vec<[u8; 3]>,
    pub(super) pixels: Vec<u8>,
}

/// Representation of colours that the table does not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dither {
    /// The nearest colour.
    None,
    /// A pattern of similar colours.
    Ordered,
}

/// Bits per channel that distinguish colours.
const BITS: u32 = 5;
const BAYER: [[u8; 4]; 4] = [[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]];

/// Reduces `raster` to at most `limit` colours.
pub(super) fn reduce(raster: &Raster, limit: usize, dither: Dither) -> Indexed {
    let strength = match dither {
        Dither::None => 0.0,
        Dither::Ordered => 0.6 / float(limit).cbrt(),
    };
    let keys: Vec<u16> = raster
        .pixels
        .iter()
        .enumerate()
        .map(|(at, &pixel)| {
            let (column, row) = (at % raster.width, at / raster.width);
            let threshold = BAYER.get(row % 4).and_then(|line| line.get(column % 4));
            let threshold = f32::from(threshold.copied().unwrap_or_default()) / 16.0 - 0.47;
            key(pixel.map(|channel| channel + threshold * strength))
        })
        .collect();
    let mut counts = vec![0_u32; 1 << (3 * BITS)];
    for &key in &keys {
        if let Some(count) = counts.get_mut(usize::from(key)) {
            *count += 1;
        }
    }
    let used: Vec<(u16, u32)> = (0..).zip(counts).filter(|(_, count)| *count > 0).collect();
    let colours = median_cut(used.clone(), limit);
    let mut nearest = vec![0_u8; 1 << (3 * BITS)];
    for (key, _) in used {
        let colour = colour_of(key);
        let best = (0_u8..=255)
            .zip(&colours)
            .min_by_key(|(_, candidate)| distance(colour, **candidate));
        if let (Some(entry), Some((index, _))) = (nearest.get_mut(usize::from(key)), best) {
            *entry = index;
        }
    }
    let index = |key: &u16| nearest.get(usize::from(*key)).copied().unwrap_or_default();
    Indexed {
        width: raster.width,
        height: raster.height,
        pixels: keys.iter().map(index).collect(),
        colours,
    }
}

fn median_cut(used: Vec<(u16, u32)>, limit: usize) -> Vec<[u8; 3]> {
    let mut boxes = vec![used];
    while boxes.len() < limit {
        let widest = boxes
            .iter()
            .enumerate()
            .map(|(at, colours)| (widest(colours), at))
            .max_by_key(|((spread, _), at)| (*spread, usize::MAX - at));
        let Some(((spread, channel), at)) = widest.filter(|((spread, _), _)| *spread > 0) else {
            break;
        };
        debug_assert!(spread > 0, "a box of one colour is not cut");
        let mut colours = boxes.swap_remove(at);
        colours.sort_by_key(|(key, _)| (channels(*key).get(channel).copied(), *key));
        let total: u32 = colours.iter().map(|(_, count)| count).sum();
        let mut before = 0;
        let middle = colours.iter().position(|(_, count)| {
            before += count;
            before * 2 >= total
        });
        let middle = middle.unwrap_or_default() + 1;
        let upper = colours.split_off(middle.min(colours.len() - 1).max(1));
        boxes.push(colours);
        boxes.push(upper);
    }
    let mut colours: Vec<[u8; 3]> = boxes.iter().map(|colours| mean(colours)).collect();
    colours.sort_unstable();
    colours.dedup();
    colours
}

/// Returns the largest spread of a channel, weighted by the eye's sensitivity, and the channel.
fn widest(colours: &[(u16, u32)]) -> (u16, usize) {
    let spread = |channel: usize| {
        let values = || {
            colours
                .iter()
                .filter_map(move |(key, _)| channels(*key).get(channel).copied())
        };
        let weight = [3, 5, 2].get(channel).copied().unwrap_or(1);
        let span = values().max().unwrap_or_default() - values().min().unwrap_or_default();
        (span * weight, channel)
    };
    let [red, green, blue] = [spread(0), spread(1), spread(2)];
    red.max(green).max(blue)
}

fn mean(colours: &[(u16, u32)]) -> [u8; 3] {
    let total: u32 = colours.iter().map(|(_, count)| count).sum();
    [0, 1, 2].map(|channel: usize| {
        let weighted = |(key, count): &(u16, u32)| {
            let value = channels(*key).get(channel).copied().unwrap_or_default();
            u32::from(value) * count
        };
        let sum: u32 = colours.iter().map(weighted).sum();
        // The middle of a step of five bits represents the step.
        let full = (sum * 255 + total * 15) / (total.max(1) * 31);
        u8::try_from(full.min(255)).unwrap_or(u8::MAX)
    })
}

fn key(colour: Colour) -> u16 {
    colour.iter().fold(0, |key, &channel| {
        key << BITS | u16::from(byte(channel) >> (8 - BITS))
    })
}

fn channels(key: u16) -> [u16; 3] {
    [key >> (2 * BITS) & 31, key >> BITS & 31, key & 31]
}

fn colour_of(key: u16) -> [u8; 3] {
    channels(key).map(|channel| u8::try_from(channel * 255 / 31).unwrap_or(u8::MAX))
}

fn distance(one: [u8; 3], other: [u8; 3]) -> u32 {
    let channels = one.iter().zip(&other).zip([3, 5, 2]);
    channels
        .map(|((&one, &other), weight)| u32::from(one.abs_diff(other)).pow(2) * weight)
        .sum()
}
