//! Landscapes, painted pixel by pixel from noise: the texture of photographs without a photograph's licence.

/// An image of 8-bit RGB rows.
pub(super) struct Picture {
    pub(super) width: u16,
    pub(super) height: u16,
    pub(super) rgb: Vec<u8>,
}

/// Subject of an image: places with slow last hops.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scene {
    /// Ridges at dusk, with a mast on the nearest.
    Mountains,
    /// Open sea under the sun.
    Sea,
    /// Green hills in the morning.
    Hills,
    /// An ice plain under the night sky.
    Ice,
}

type Colour = [f32; 3];

struct Palette {
    seed: u32,
    zenith: Colour,
    horizon: Colour,
    sun: Colour,
    /// Position and radius of the sun, in units of the image's height (x in units of its width).
    disc: (f32, f32, f32),
    far: Colour,
    near: Colour,
    ridges: usize,
    /// Height of the land's upper edge, from the top.
    edge: f32,
    roughness: f32,
}

/// Paints a scene; equal arguments give equal bytes.
pub(super) fn paint(scene: Scene, width: u16, height: u16) -> Picture {
    let palette = palette(scene);
    let mut rgb = Vec::with_capacity(usize::from(width) * usize::from(height) * 3);
    let aspect = f32::from(width) / f32::from(height);
    for row in 0..height {
        let y = (f32::from(row) + 0.5) / f32::from(height);
        for column in 0..width {
            let x = (f32::from(column) + 0.5) / f32::from(width);
            let colour = pixel(scene, &palette, x, y, aspect);
            rgb.extend(colour.map(to_byte));
        }
    }
    Picture { width, height, rgb }
}

fn palette(scene: Scene) -> Palette {
    match scene {
        Scene::Mountains => Palette {
            seed: 7,
            zenith: [0.09, 0.13, 0.29],
            horizon: [0.98, 0.62, 0.38],
            sun: [1.0, 0.86, 0.62],
            disc: (0.70, 0.52, 0.055),
            far: [0.55, 0.40, 0.47],
            near: [0.05, 0.07, 0.13],
            ridges: 5,
            edge: 0.50,
            roughness: 0.30,
        },
        Scene::Sea => Palette {
            seed: 21,
            zenith: [0.22, 0.45, 0.72],
            horizon: [0.93, 0.88, 0.76],
            sun: [1.0, 0.96, 0.82],
            disc: (0.34, 0.26, 0.06),
            far: [0.42, 0.62, 0.68],
            near: [0.03, 0.19, 0.29],
            ridges: 0,
            edge: 0.52,
            roughness: 0.0,
        },
        Scene::Hills => Palette {
            seed: 33,
            zenith: [0.36, 0.62, 0.86],
            horizon: [0.95, 0.95, 0.88],
            sun: [1.0, 0.98, 0.86],
            disc: (0.22, 0.24, 0.05),
            far: [0.62, 0.73, 0.66],
            near: [0.12, 0.27, 0.11],
            ridges: 4,
            edge: 0.46,
            roughness: 0.16,
        },
        Scene::Ice => Palette {
            seed: 58,
            zenith: [0.01, 0.03, 0.09],
            horizon: [0.10, 0.32, 0.40],
            sun: [0.86, 0.92, 0.98],
            disc: (0.76, 0.20, 0.04),
            far: [0.30, 0.45, 0.55],
            near: [0.66, 0.76, 0.84],
            ridges: 3,
            edge: 0.62,
            roughness: 0.07,
        },
    }
}

fn pixel(scene: Scene, palette: &Palette, x: f32, y: f32, aspect: f32) -> Colour {
    let sky = sky(scene, palette, x, y, aspect);
    let colour = match scene {
        Scene::Sea => sea(palette, sky, x, y, aspect),
        Scene::Mountains | Scene::Hills | Scene::Ice => land(palette, sky, x, y, aspect),
    };
    if matches!(scene, Scene::Mountains) && mast(x, y, aspect) {
        return [0.03, 0.04, 0.08];
    }
    colour
}

fn sky(scene: Scene, palette: &Palette, x: f32, y: f32, aspect: f32) -> Colour {
    let mut colour = mix(
        palette.zenith,
        palette.horizon,
        (y / palette.edge).clamp(0.0, 1.0).powf(1.4),
    );
    let (sun_x, sun_y, radius) = palette.disc;
    let distance = (((x - sun_x) * aspect).powi(2) + (y - sun_y).powi(2)).sqrt();
    let glow = (radius / distance.max(radius)).powf(1.3);
    colour = mix(colour, palette.sun, (glow * 0.75).min(1.0));
    if distance < radius {
        return palette.sun;
    }
    match scene {
        Scene::Ice => {
            let band = fractal(x * aspect * 3.0, y * 1.2, palette.seed + 1);
            let curtain = ((band - 0.45) * 3.0).clamp(0.0, 1.0) * (1.0 - (y - 0.28).abs() * 2.6).max(0.0);
            let star = hash(scaled(x * aspect, 260.0), scaled(y, 260.0), palette.seed) > 0.9965;
            let lit = mix(colour, [0.25, 0.95, 0.60], curtain * 0.7);
            if star { mix(lit, [1.0, 1.0, 1.0], 0.8) } else { lit }
        }
        Scene::Mountains | Scene::Sea | Scene::Hills => {
            let cloud = fractal(x * aspect * 2.2, y * 7.0, palette.seed + 2);
            let cover = ((cloud - 0.52) * 3.2).clamp(0.0, 1.0) * 0.65;
            mix(colour, mix(palette.horizon, palette.sun, 0.5), cover)
        }
    }
}

fn land(palette: &Palette, sky: Colour, x: f32, y: f32, aspect: f32) -> Colour {
    let mut colour = sky;
    for (ridge, depth) in (0_u16..).take(palette.ridges).zip(depths(palette.ridges)) {
        let scale = 2.0 + 2.5 * (1.0 - depth);
        let shape = fractal(x * aspect * scale, f32::from(ridge) * 17.3, palette.seed + 40);
        let top = palette.edge + (1.0 - palette.edge) * 0.85 * depth
            - (shape - 0.42) * palette.roughness * (1.3 - depth * 0.6);
        if y > top {
            let ground = mix(palette.far, palette.near, depth);
            let texture = fractal(x * aspect * 26.0, y * 40.0, palette.seed + 50) - 0.5;
            let haze = ((y - top) * 2.0).clamp(0.0, 0.5) * (1.0 - depth);
            colour =
                mix(ground, palette.horizon, haze).map(|channel| channel + texture * 0.10 * (0.4 + depth));
        }
    }
    colour
}

fn sea(palette: &Palette, sky: Colour, x: f32, y: f32, aspect: f32) -> Colour {
    if y < palette.edge {
        return sky;
    }
    let depth = (y - palette.edge) / (1.0 - palette.edge);
    let stretch = 1.0 / (0.04 + depth);
    let wave = fractal(
        x * aspect * 3.0 * stretch.min(9.0),
        depth.sqrt() * 34.0,
        palette.seed + 3,
    );
    let water = mix(palette.far, palette.near, depth.powf(0.6));
    let path = (1.0 - ((x - palette.disc.0) * aspect).abs() * (3.4 - 2.2 * depth)).clamp(0.0, 1.0);
    let glint = ((wave - 0.55) * 5.0).clamp(0.0, 1.0) * path;
    let swell = (wave - 0.5) * 0.16;
    mix(water.map(|channel| channel + swell), palette.sun, glint)
}

/// A lattice mast with two cross arms, standing on the nearest ridge.
fn mast(x: f32, y: f32, aspect: f32) -> bool {
    let dx = (x - 0.17) * aspect;
    let half = 0.004 + 0.016 * ((y - 0.30) / 0.55).max(0.0);
    let lattice =
        ((y * 46.0).fract() - 0.5 - dx / half * 0.45).abs() < 0.10 || (dx.abs() - half).abs() < 0.0028;
    let body = (0.30..0.90).contains(&y) && dx.abs() <= half + 0.002 && lattice;
    let arm = |level: f32| (y - level).abs() < 0.004 && dx.abs() < 0.045;
    body || arm(0.34) || arm(0.40) || (dx.abs() < 0.002 && (0.24..0.31).contains(&y))
}

/// From far (0) to near (1).
fn depths(count: usize) -> impl Iterator<Item = f32> {
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    (0..count).map(move |index| f32::from(index) / f32::from(count.max(2) - 1))
}

/// Five octaves of value noise, 0 to 1.
fn fractal(x: f32, y: f32, seed: u32) -> f32 {
    let mut sum = 0.0;
    let mut amplitude = 0.5;
    let (mut x, mut y) = (x, y);
    for octave in 0..5 {
        sum += amplitude * noise(x, y, seed.wrapping_add(octave * 101));
        amplitude *= 0.5;
        x *= 2.03;
        y *= 2.03;
    }
    sum
}

fn noise(x: f32, y: f32, seed: u32) -> f32 {
    let (left, top) = (scaled(x, 1.0), scaled(y, 1.0));
    let ease = |t: f32| t * t * (3.0 - 2.0 * t);
    let (u, v) = (ease(x - x.floor()), ease(y - y.floor()));
    let upper = hash(left, top, seed) * (1.0 - u) + hash(left + 1, top, seed) * u;
    let lower = hash(left, top + 1, seed) * (1.0 - u) + hash(left + 1, top + 1, seed) * u;
    upper * (1.0 - v) + lower * v
}

/// A fixed pseudo-random number from 0 to 1 for a lattice point.
fn hash(x: i32, y: i32, seed: u32) -> f32 {
    let mut bits = x.cast_unsigned().wrapping_mul(0x9e37_79b1) ^ y.cast_unsigned().wrapping_mul(0x85eb_ca77);
    bits = (bits ^ seed.wrapping_mul(0xc2b2_ae3d)).wrapping_mul(0x27d4_eb2f);
    bits ^= bits >> 15;
    bits = bits.wrapping_mul(0x2c1b_3c6d);
    bits ^= bits >> 13;
    let top = u16::try_from(bits >> 16).unwrap_or(u16::MAX);
    f32::from(top) / f32::from(u16::MAX)
}

fn mix(from: Colour, to: Colour, share: f32) -> Colour {
    [0, 1, 2].map(|channel| from[channel] + (to[channel] - from[channel]) * share)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "coordinates stay below a few thousand"
)]
fn scaled(value: f32, by: f32) -> i32 {
    (value * by).floor() as i32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the range of a byte"
)]
fn to_byte(channel: f32) -> u8 {
    (channel.clamp(0.0, 1.0) * 255.0 + 0.5) as u8
}
