//! A picture in memory, with drawing operations.
use super::font;
use crate::reference::numbers::{byte, float, floor};

/// Red, green and blue from 0 to 1.
pub(super) type Colour = [f32; 3];

/// Rows of colours.
#[derive(Clone, Debug)]
pub(super) struct Raster {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pixels: Vec<Colour>,
}

/// A rectangle in units of the picture's width and height.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f32,
    pub(super) top: f32,
    pub(super) right: f32,
    pub(super) bottom: f32,
}

impl Area {
    pub(super) const ALL: Self = Self::new(0.0, 0.0, 1.0, 1.0);

    pub(super) const fn new(left: f32, top: f32, right: f32, bottom: f32) -> Self {
        Self {
            left,
            top,
            right,
            bottom,
        }
    }
}

/// Samples per pixel and direction for smooth edges.
const SAMPLES: usize = 3;

impl Raster {
    pub(super) fn new(width: usize, height: usize, colour: Colour) -> Self {
        let (width, height) = (width.max(1), height.max(1));
        Self {
            width,
            height,
            pixels: vec![colour; width * height],
        }
    }

    /// Creates a picture whose pixels `paint` computes from their position, each coordinate from 0 to 1.
    pub(super) fn paint(width: usize, height: usize, paint: impl Fn(f32, f32) -> Colour) -> Self {
        let mut raster = Self::new(width, height, [0.0; 3]);
        let (across, down) = (1.0 / float(raster.width), 1.0 / float(raster.height));
        for (row, pixels) in raster.pixels.chunks_exact_mut(raster.width).enumerate() {
            let y = (float(row) + 0.5) * down;
            for (column, pixel) in pixels.iter_mut().enumerate() {
                *pixel = paint((float(column) + 0.5) * across, y);
            }
        }
        raster
    }

    /// Returns the first `height` rows.
    pub(super) fn cropped(&self, height: usize) -> Self {
        let height = height.clamp(1, self.height);
        Self {
            width: self.width,
            height,
            pixels: self.pixels.iter().take(self.width * height).copied().collect(),
        }
    }

    pub(super) fn to_rgb(&self) -> Vec<u8> {
        self.pixels.iter().flat_map(|pixel| pixel.map(byte)).collect()
    }

    /// Ratio of width to height.
    pub(super) fn aspect(&self) -> f32 {
        float(self.width) / float(self.height)
    }

    /// Mixes into every pixel of an area the colour of `paint`, with the weight of `paint`.
    pub(super) fn blend(&mut self, area: Area, paint: impl Fn(f32, f32) -> (Colour, f32)) {
        let (width, height) = (float(self.width), float(self.height));
        let (left, right) = (floor(area.left * width), floor((area.right * width).ceil()));
        let (top, bottom) = (floor(area.top * height), floor((area.bottom * height).ceil()));
        for row in top..bottom.min(self.height) {
            let y = (float(row) + 0.5) / height;
            for column in left..right.min(self.width) {
                let x = (float(column) + 0.5) / width;
                let (colour, share) = paint(x, y);
                if let Some(pixel) = self.pixels.get_mut(row * self.width + column) {
                    *pixel = mix(*pixel, colour, share.clamp(0.0, 1.0));
                }
            }
        }
    }

    pub(super) fn fill(&mut self, area: Area, colour: Colour) {
        self.blend(area, |_, _| (colour, 1.0));
    }

    /// Draws a filled circle with a smooth edge; `radius` in units of the height.
    pub(super) fn disc(&mut self, x: f32, y: f32, radius: f32, colour: Colour) {
        let (aspect, edge) = (self.aspect(), 1.0 / float(self.height));
        let half = radius + edge;
        let area = Area::new(
            (x - half / aspect).max(0.0),
            (y - half).max(0.0),
            x + half / aspect,
            y + half,
        );
        self.blend(area, |at_x, at_y| {
            let distance = (((at_x - x) * aspect).powi(2) + (at_y - y).powi(2)).sqrt();
            (colour, (radius - distance) / edge + 0.5)
        });
    }

    /// Draws lettering of the area's height; it is clipped to the area's width.
    pub(super) fn text(&mut self, area: Area, text: &str, colour: Colour) {
        let text: Vec<char> = text.chars().collect();
        let cell = (area.bottom - area.top) / float(font::HEIGHT);
        let cell_x = cell / self.aspect();
        let (step_x, step_y) = (1.0 / float(self.width), 1.0 / float(self.height));
        self.blend(area, |x, y| {
            let mut hits: usize = 0;
            for sample in 0..SAMPLES * SAMPLES {
                let across = float(sample % SAMPLES) / float(SAMPLES) - 0.33;
                let down = float(sample / SAMPLES) / float(SAMPLES) - 0.33;
                let column = (x + across * step_x - area.left) / cell_x;
                let row = (y + down * step_y - area.top) / cell;
                let inside = column >= 0.0 && row >= 0.0;
                hits += usize::from(inside && font::inked(&text, floor(column), floor(row)));
            }
            (colour, float(hits) / float(SAMPLES * SAMPLES))
        });
    }
}

/// Returns the width of lettering in units of its height.
pub(super) fn text_width(text: &str) -> f32 {
    float(text.chars().count() * (font::WIDTH + 1)) / float(font::HEIGHT)
}

pub(super) fn mix(from: Colour, to: Colour, share: f32) -> Colour {
    [0, 1, 2].map(|channel: usize| {
        let (from, to) = (from.get(channel), to.get(channel));
        let (from, to) = (from.copied().unwrap_or_default(), to.copied().unwrap_or_default());
        from + (to - from) * share
    })
}

/// Darkens (below 1) or lightens (above 1).
pub(super) fn shade(colour: Colour, by: f32) -> Colour {
    colour.map(|channel| (channel * by).clamp(0.0, 1.0))
}
