//! Small samples that represent large images.
//!
//! The quality that an image needs varies more between images than the table by kind and size shows: for a
//! score of 60, half of the images of 0.1 to 1 megapixel are within 5 points with the table, and within 3
//! points with a sample.
use crate::raster::{Raster, to_usize};

/// Side of a tile: a scale of the metric covers structures of up to a few dozen pixels.
const TILE: u32 = 80;
/// Tiles per row and per column.
const TILES: u32 = 3;
/// Smaller images have no sample, because it would be hardly cheaper than the whole image. Twice the pixels
/// of a sample.
pub(crate) const LEAST_PIXELS: u64 = 2 * 240 * 240;

/// Returns tiles from all parts of an image, side by side; `None` if the image is too small or narrow.
pub(crate) fn sampled(raster: &Raster) -> Option<Raster> {
    let side = TILE * TILES;
    if raster.pixels() <= LEAST_PIXELS || raster.width < side || raster.height < side {
        return None;
    }
    let channels = raster.layout.channels();
    let length = to_usize(TILE) * channels;
    let mut data = Vec::with_capacity(to_usize(side) * to_usize(side) * channels);
    for y in 0..side {
        let line = to_usize(source(y, raster.height)) * raster.stride();
        for tile in 0..TILES {
            let start = line + to_usize(source(tile * TILE, raster.width)) * channels;
            data.extend_from_slice(raster.data.get(start..start + length)?);
        }
    }
    Some(Raster {
        width: side,
        height: side,
        layout: raster.layout,
        data,
    })
}

/// Returns the position in the image of a position in the sample: each tile is in the middle of its third, on
/// the encoder's block grid.
fn source(place: u32, length: u32) -> u32 {
    let (tile, within) = (place / TILE, place % TILE);
    let room = length / TILES;
    let start = tile * room + room.saturating_sub(TILE) / 2;
    (start & !15) + within
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raster::Layout;

    fn numbered(width: u32, height: u32) -> Raster {
        let pixel = |place: u32| {
            let [_, high, middle, low] = place.to_be_bytes();
            [high, middle, low, 255]
        };
        Raster {
            width,
            height,
            layout: Layout::Rgba,
            data: (0..width * height).flat_map(pixel).collect(),
        }
    }

    #[test]
    fn tiles_come_from_all_parts_in_whole_blocks() {
        let picture = numbered(1000, 700);
        let sample = sampled(&picture).expect("it is large");
        assert_eq!((sample.width, sample.height), (240, 240));
        let place = |x: usize, y: usize| {
            let pixel = (y * 240 + x) * 4;
            let [high, middle, low] = [0, 1, 2].map(|channel| u32::from(sample.data[pixel + channel]));
            let place = (high << 16) + (middle << 8) + low;
            (place % 1000, place / 1000)
        };
        for tile in 0..3 {
            let (left, top) = place(tile * 80, tile * 80);
            assert_eq!((left % 16, top % 16), (0, 0));
            assert_eq!(place(tile * 80 + 79, tile * 80 + 79), (left + 79, top + 79));
            let third = u32::try_from(tile).expect("three tiles") * 333;
            assert!((third + 100..third + 150).contains(&left), "{left}");
        }
    }

    #[test]
    fn images_hardly_larger_than_the_sample_are_not_sampled() {
        assert_eq!(sampled(&numbered(300, 300)), None);
        assert_eq!(sampled(&numbered(1000, 200)), None);
        assert_eq!(sampled(&numbered(1, 1)), None);
        let narrow = sampled(&numbered(240, 500)).expect("it is large");
        assert_eq!(narrow.data.len(), 240 * 240 * 4);
    }
}
