//! Synthesised photographs: scenes with edges, gradients and noise at all scales, as in camera images.
use super::{
    noise,
    raster::{Colour, Raster, mix, shade},
};
use crate::reference::{
    numbers::{float, floor},
    random::Random,
};

/// Subject of a photograph with all of its random parameters.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    subject: Subject,
    sky: Colour,
    light: Colour,
    far: Colour,
    near: Colour,
    accent: Colour,
    /// Position of the scene in the noise.
    origin: (f32, f32),
    /// Height of the horizon or edge, from the top.
    edge: f32,
    /// Sun, face or object: position and radius.
    centre: (f32, f32, f32),
    /// Roughness of surfaces.
    texture: f32,
    /// Sensor noise.
    grain: f32,
}

#[derive(Clone, Copy, Debug, Default)]
enum Subject {
    #[default]
    Mountains,
    Sea,
    Street,
    Portrait,
    Product,
    Meadow,
}

const SKIES: &[Colour] = &[
    [0.42, 0.62, 0.88],
    [0.75, 0.80, 0.86],
    [0.93, 0.66, 0.42],
    [0.25, 0.36, 0.60],
];
const LIGHTS: &[Colour] = &[[1.0, 0.96, 0.84], [0.98, 0.86, 0.66], [0.94, 0.95, 0.97]];
const FARS: &[Colour] = &[[0.52, 0.56, 0.62], [0.58, 0.52, 0.46], [0.44, 0.55, 0.50]];
const NEARS: &[Colour] = &[
    [0.16, 0.22, 0.12],
    [0.20, 0.16, 0.12],
    [0.10, 0.16, 0.26],
    [0.30, 0.28, 0.24],
];
const ACCENTS: &[Colour] = &[
    [0.76, 0.14, 0.12],
    [0.12, 0.32, 0.66],
    [0.90, 0.68, 0.12],
    [0.14, 0.46, 0.30],
];
const SUBJECTS: &[Subject] = &[
    Subject::Mountains,
    Subject::Sea,
    Subject::Street,
    Subject::Portrait,
    Subject::Product,
    Subject::Meadow,
];

impl Scene {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            subject: random.pick(SUBJECTS),
            sky: random.pick(SKIES),
            light: random.pick(LIGHTS),
            far: random.pick(FARS),
            near: random.pick(NEARS),
            accent: random.pick(ACCENTS),
            origin: (random.unit() * 40.0, random.unit() * 40.0),
            edge: random.between(0.38, 0.58),
            centre: (
                random.between(0.35, 0.65),
                random.between(0.38, 0.5),
                random.between(0.18, 0.26),
            ),
            texture: random.between(0.55, 0.9),
            grain: random.between(0.02, 0.05),
        }
    }

    pub(super) fn shoot(&self, width: usize, height: usize) -> Raster {
        let aspect = float(width) / float(height);
        // Grain is sensor noise, so it has the scale of pixels, whatever the picture shows.
        let pitch = float(height) / 90.0;
        Raster::paint(width, height, |x, y| {
            let x = x * aspect;
            let colour = match self.subject {
                Subject::Mountains => self.mountains(x, y),
                Subject::Sea => self.sea(x, y, aspect),
                Subject::Street => self.street(x, y),
                Subject::Portrait => self.portrait(x, y, aspect),
                Subject::Product => self.product(x, y, aspect),
                Subject::Meadow => self.meadow(x, y),
            };
            let grain = (noise::sample(x * pitch, y * pitch + 0.37) - 0.5) * self.grain;
            colour.map(|channel| channel + grain)
        })
    }

    fn noise(&self, x: f32, y: f32, layer: f32) -> f32 {
        noise::sample(
            self.origin.0 + x + layer * 0.173,
            self.origin.1 + y + layer * 0.317,
        )
    }

    fn sky(&self, x: f32, y: f32) -> Colour {
        let colour = mix(self.sky, self.light, (y / self.edge).min(1.0) * 0.6);
        let cloud = self.noise(x * 0.35, y * 0.8, 1.0);
        mix(colour, self.light, ((cloud - 0.5) * 3.0).clamp(0.0, 0.7))
    }

    /// Dark and bright patches on a surface; `size` is their number. Their edges are sharp: a photograph of
    /// low quality retains these, not the noise.
    fn surface(&self, colour: Colour, x: f32, y: f32, size: f32) -> Colour {
        let value = self.noise(x * size, y * size, 2.0) - 0.5;
        shade(colour, 1.0 + (value + patches(value)) * 1.6 * self.texture)
    }

    fn mountains(&self, x: f32, y: f32) -> Colour {
        let mut colour = self.sky(x, y);
        for ridge in 0_u8..4 {
            let depth = f32::from(ridge) / 3.0;
            let shape = self.noise(x * (0.3 + 0.25 * depth), depth * 3.7, 3.0);
            let top = self.edge + (0.9 - self.edge) * depth - (shape - 0.35) * 0.5 * (1.15 - depth);
            if y > top {
                let slope = self.noise(x * 1.4 + y * 0.4, y * 1.1 + depth, 4.0) - 0.5;
                let ground = mix(self.far, self.near, depth);
                colour = shade(ground, 1.0 + patches(slope) * (0.6 + depth * 0.6));
                colour = self.surface(colour, x, y, 2.0 + depth);
            }
        }
        colour
    }

    fn sea(&self, x: f32, y: f32, aspect: f32) -> Colour {
        if y < self.edge {
            return self.sky(x, y);
        }
        let depth = (y - self.edge) / (1.0 - self.edge);
        let stretch = 0.6 + 3.0 * (1.0 - depth);
        let wave = self.noise(x * stretch, depth.sqrt() * 4.0, 5.0) - 0.5;
        let water = mix(mix(self.sky, self.far, 0.5), self.near, depth);
        let glitter = 1.0 - ((x / aspect - self.centre.0).abs() * 3.0).min(1.0);
        let lit = ((wave - 0.06) * 5.0 * glitter).clamp(0.0, 0.9);
        mix(shade(water, 1.0 + patches(wave) * 0.9), self.light, lit)
    }

    fn street(&self, x: f32, y: f32) -> Colour {
        let (column, inside) = ((x * 5.0).floor(), (x * 5.0).fract());
        let height = self.noise(column * 0.37, 0.5, 6.0);
        let roof = 0.65 - height * 0.9;
        if y > 0.86 {
            return self.surface(shade(self.far, 0.6), x, y, 2.5);
        }
        if y < roof {
            return self.sky(x, y);
        }
        let house = mix(self.far, self.accent, self.noise(column * 0.71, 0.2, 7.0) * 0.5);
        let house = shade(house, if inside < 0.06 { 0.55 } else { 1.05 - inside * 0.3 });
        let (pane, floor) = ((inside * 4.0).fract(), (y * 16.0).fract());
        if (0.25..0.8).contains(&pane) && (0.3..0.78).contains(&floor) {
            let window = self.noise(
                (inside * 4.0).floor() * 0.19 + column,
                (y * 16.0).floor() * 0.23,
                8.0,
            );
            let glass = if window > 0.56 {
                self.light
            } else {
                shade(self.sky, 0.45)
            };
            return self.surface(glass, x, y, 1.5);
        }
        self.surface(house, x, y, 3.0)
    }

    fn portrait(&self, x: f32, y: f32, aspect: f32) -> Colour {
        let (centre_x, centre_y, radius) = self.centre;
        let (dx, dy) = ((x - centre_x * aspect) / (radius * 0.8), (y - centre_y) / radius);
        let face = (dx * dx + dy * dy).sqrt();
        let hair = (dx * dx + (dy + 0.25).powi(2)).sqrt();
        if face < 1.0 && dy > -0.55 {
            let skin = mix(
                [0.86, 0.66, 0.54],
                [0.56, 0.38, 0.28],
                (dx * 0.5 + 0.5).clamp(0.0, 1.0),
            );
            let eye = ((dx.abs() - 0.38).powi(2) * 2.0 + (dy + 0.08).powi(2) * 6.0).sqrt();
            let mouth = (dx * dx * 0.5 + (dy - 0.5).powi(2) * 12.0).sqrt();
            let feature = if eye < 0.17 {
                0.3
            } else if mouth < 0.2 {
                0.6
            } else {
                1.0
            };
            return self.surface(shade(skin, feature * (1.1 - face * 0.25)), x, y, 1.6);
        }
        if hair < 1.22 && dy < 0.45 {
            let strand = self.noise(dx * 0.8, dy * 0.1 + dx * 0.3, 9.0) - 0.5;
            return shade(self.near, 1.0 + patches(strand) * 1.6);
        }
        let shoulder = centre_y + radius * (1.15 + dx * dx * 0.12);
        if y > shoulder {
            let fold = self.noise(x * 0.9, y * 0.5, 10.0) - 0.5;
            return self.surface(shade(self.accent, 1.0 + fold), x, y, 2.4);
        }
        // The background is out of focus: only gradual changes.
        let blur = self.noise(x * 0.06, y * 0.06, 11.0);
        mix(self.far, self.light, blur)
    }

    fn product(&self, x: f32, y: f32, aspect: f32) -> Colour {
        let (centre_x, _, radius) = self.centre;
        let (dx, dy) = (x - centre_x * aspect, y - 0.5);
        let ground = mix([0.97, 0.97, 0.98], [0.82, 0.83, 0.86], y);
        let half = (radius * 1.3, radius * 1.5);
        if dx.abs() < half.0 && dy.abs() < half.1 {
            let (u, v) = (dx / half.0 * 0.5 + 0.5, dy / half.1 * 0.5 + 0.5);
            let body = shade(self.accent, 1.15 - u * 0.5);
            if (0.14..0.86).contains(&u) && (0.12..0.55).contains(&v) {
                let shown = self.mountains(u * 1.4, v * 1.6);
                return mix(shown, self.light, ((u - v) * 0.4).clamp(0.0, 0.3));
            }
            let key = (u * 4.0).fract() > 0.25 && (v * 9.0).fract() > 0.3 && v > 0.6;
            let body = if key { shade(body, 0.6) } else { body };
            return self.surface(body, x, y, 2.0);
        }
        let shadow = ((dx - 0.05).abs() - half.0)
            .max((dy - 0.05).abs() - half.1)
            .max(0.0);
        shade(ground, 0.72 + (shadow * 4.0).min(0.28))
    }

    fn meadow(&self, x: f32, y: f32) -> Colour {
        let top = self.edge + (self.noise(x * 0.15, 0.1, 12.0) - 0.5) * 0.2;
        if y < top {
            return self.sky(x, y);
        }
        let depth = ((y - top) / (1.0 - top)).clamp(0.0, 1.0);
        let blade = self.noise(x * (2.6 - depth), y * (0.7 + (1.0 - depth) * 2.0), 13.0) - 0.5;
        let green = mix([0.46, 0.60, 0.28], [0.14, 0.30, 0.08], depth);
        let flower = self.noise(x * 3.1, y * 3.1, 14.0) > 0.7 - depth * 0.04;
        if flower {
            return shade(self.accent, 1.2);
        }
        shade(green, 1.0 + patches(blade) * (0.5 + self.texture))
    }
}

/// Steepens gradual changes, so that patches get edges.
fn patches(value: f32) -> f32 {
    (value * 9.0).clamp(-0.5, 0.5)
}

/// Returns width and height of a picture of about `area` pixels with this aspect ratio.
pub(super) fn dimensions(area: f32, aspect: f32) -> (usize, usize) {
    let height = (area / aspect).sqrt();
    let width = floor(height * aspect + 0.5).max(8);
    (width, floor(height + 0.5).max(8))
}
