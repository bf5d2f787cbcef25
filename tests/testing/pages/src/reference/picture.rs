//! Pictures of a target size in bytes, obtained by their dimensions and content: synthesised photographs and
//! drawings.
mod drawing;
mod encode;
mod font;
mod noise;
mod palette;
mod raster;
mod scene;

use encode::EncodeFault;
use palette::{Dither, Indexed, reduce};
use raster::Raster;
use scene::{Scene, dimensions};

use super::{
    numbers::{float, floor},
    random::Random,
};

/// Purpose of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Motif {
    /// One transparent pixel, for layout.
    #[default]
    Spacer,
    /// A list bullet.
    Bullet,
    /// A horizontal rule.
    Rule,
    /// A button with lettering.
    Label,
    /// A pictogram.
    Icon,
    /// The site's name.
    Logo,
    /// An advertisement.
    Banner,
    /// A line chart.
    Chart,
    /// A photograph with few colours.
    Thumbnail,
    /// A photograph.
    Photo,
}

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Gif,
    Png,
    Jpeg,
}

/// A picture file.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) file: Vec<u8>,
    pub(crate) format: Format,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// Attempts to meet a size; each reduces the error to about a fifth.
const ATTEMPTS: usize = 6;
/// The smallest JPEG photograph: below this the tables exceed the picture.
const SMALLEST_PHOTO: usize = 1500;
/// The smallest PNG: below this the chunk headers exceed the picture.
const SMALLEST_PNG: usize = 250;
/// Relative deviation within which a size is met.
const TOLERANCE: f32 = 0.012;

/// Returns a picture of about `target` bytes. Equal arguments give equal files.
///
/// The size deviates if the smallest picture of the motif is larger, or if the motif cannot vary finely
/// enough.
pub(crate) fn make(motif: Motif, name: &str, seed: u64, target: usize) -> Picture {
    let made = match motif {
        Motif::Spacer => spacer(),
        Motif::Photo => photo(seed, target),
        Motif::Bullet
        | Motif::Rule
        | Motif::Label
        | Motif::Icon
        | Motif::Logo
        | Motif::Banner
        | Motif::Chart
        | Motif::Thumbnail => drawing_or_photo(motif, name, seed, target),
    };
    // The formats can represent every drawing of this module; if an encoder failed, the page would keep its
    // form.
    made.or_else(|_| spacer()).unwrap_or(Picture {
        file: Vec::new(),
        format: Format::Gif,
        width: 1,
        height: 1,
    })
}

/// Returns a drawing, or another kind of picture if the drawing would need more detail than its kind has.
fn drawing_or_photo(motif: Motif, name: &str, seed: u64, target: usize) -> Result<Picture, EncodeFault> {
    let picture = drawn(motif, name, seed, target)?;
    if picture.file.len() + target / 12 >= target {
        return Ok(picture);
    }
    let other = if target >= SMALLEST_PHOTO {
        photo(seed, target)?
    } else {
        drawn(Motif::Thumbnail, name, seed, target)?
    };
    let error = |picture: &Picture| picture.file.len().abs_diff(target);
    Ok(if error(&other) < error(&picture) {
        other
    } else {
        picture
    })
}

fn spacer() -> Result<Picture, EncodeFault> {
    let pixel = Indexed {
        width: 1,
        height: 1,
        colours: vec![[255; 3], [0; 3]],
        pixels: vec![0],
    };
    Ok(Picture {
        file: encode::gif(&pixel, Some(0))?,
        format: Format::Gif,
        width: 1,
        height: 1,
    })
}

fn drawn(motif: Motif, name: &str, seed: u64, target: usize) -> Result<Picture, EncodeFault> {
    let start = Random::new(seed);
    let mut style = start.clone();
    // Photographs with a colour table were GIF; some sites used PNG for drawings.
    let may_be_png = motif != Motif::Thumbnail && target >= SMALLEST_PNG;
    let as_png = motif == Motif::Chart || (may_be_png && style.chance(0.3));
    let colours = colours(motif, target, &mut style);
    let draw = |scale: f32| {
        let random = &mut start.clone();
        let raster = match motif {
            Motif::Spacer | Motif::Bullet => drawing::bullet(random, scale),
            Motif::Rule => drawing::rule(random, scale),
            Motif::Label => drawing::label(random, scale),
            Motif::Icon => drawing::icon(random, scale),
            Motif::Logo => drawing::logo(random, scale, name),
            Motif::Banner => drawing::banner(random, scale),
            Motif::Chart => drawing::chart(random, scale),
            Motif::Thumbnail | Motif::Photo => {
                let aspect = random.pick(ASPECTS);
                let (width, height) = dimensions((scale * scale).min(300_000.0), aspect);
                Scene::new(random).shoot(width, height)
            }
        };
        let dither = if matches!(motif, Motif::Thumbnail | Motif::Banner) {
            Dither::Ordered
        } else {
            Dither::None
        };
        let indexed = reduce(&raster, colours, dither);
        let (file, format) = if as_png {
            (encode::png(&indexed)?, Format::Png)
        } else {
            (encode::gif(&indexed, None)?, Format::Gif)
        };
        Ok(picture(file, format, &raster))
    };
    meet(target, float(target).sqrt(), draw)
}

/// Returns the number of colours for a picture of this kind and size: each costs three bytes in the table.
fn colours(motif: Motif, target: usize, random: &mut Random) -> usize {
    match (motif, target) {
        (Motif::Thumbnail, 4000..) => random.pick(&[64, 96, 128]),
        (Motif::Thumbnail, _) => 32,
        (Motif::Banner, _) => 64,
        (_, 0..180) => 4,
        (_, 180..500) => 8,
        (_, 500..1500) => 16,
        _ => 32,
    }
}

/// Draws until the file has about `target` bytes, and returns the best attempt.
fn meet(
    target: usize,
    start: f32,
    draw: impl Fn(f32) -> Result<Picture, EncodeFault>,
) -> Result<Picture, EncodeFault> {
    let mut scale = start;
    let mut best: Option<Picture> = None;
    for _ in 0..ATTEMPTS {
        let picture = draw(scale)?;
        let length = picture.file.len();
        let error = length.abs_diff(target);
        if best
            .as_ref()
            .is_none_or(|best| error < best.file.len().abs_diff(target))
        {
            best = Some(picture);
        }
        if float(error) <= TOLERANCE * float(target) {
            break;
        }
        // The size grows about as the area, which grows as the square of the scale.
        scale *= (float(target) / float(length)).sqrt();
    }
    best.ok_or(EncodeFault)
}

const ASPECTS: &[f32] = &[1.333, 1.333, 1.5, 0.75, 1.0, 1.7];
/// Bytes of tables and markers in every JPEG.
const JPEG_OVERHEAD: usize = 620;
/// Relative deviation within which a photograph's size is met: large ones determine the size of the page.
const PHOTO_TOLERANCE: f32 = 0.003;
/// Initial bits per pixel.
const JPEG_BITS: f32 = 1.3;

/// A photograph of JPEG quality 80 to 85: encoded three times to find the scale, then cropped to the size.
fn photo(seed: u64, target: usize) -> Result<Picture, EncodeFault> {
    let random = &mut Random::new(seed);
    let quality = u8::try_from(random.range(80, 85)).unwrap_or(80);
    let aspect = random.pick(ASPECTS);
    let scene = Scene::new(random);
    let payload = float(target.saturating_sub(JPEG_OVERHEAD).max(60));
    let mut area = payload * 8.0 / JPEG_BITS;
    for _ in 0..3 {
        let (width, height) = dimensions(area, aspect);
        let file = encode::jpeg(&scene.shoot(width, height), quality)?;
        area *= payload / float(file.len().saturating_sub(JPEG_OVERHEAD).max(30));
    }
    let (width, height) = dimensions(area, aspect);
    let master = scene.shoot(width, height + height / 8 + 2);
    let mut rows = height;
    let mut best: Option<Picture> = None;
    for _ in 0..ATTEMPTS {
        let cut = master.cropped(rows);
        let file = encode::jpeg(&cut, quality)?;
        let length = file.len();
        let error = length.abs_diff(target);
        if best
            .as_ref()
            .is_none_or(|best| error < best.file.len().abs_diff(target))
        {
            best = Some(picture(file, Format::Jpeg, &cut));
        }
        let density = float(length.saturating_sub(JPEG_OVERHEAD).max(30)) / float(cut.height);
        let wanted = floor(payload / density + 0.5).clamp(8, master.height);
        if float(error) <= PHOTO_TOLERANCE * float(target) || wanted == rows {
            break;
        }
        rows = wanted;
    }
    best.ok_or(EncodeFault)
}

fn picture(file: Vec<u8>, format: Format, raster: &Raster) -> Picture {
    Picture {
        file,
        format,
        width: raster.width,
        height: raster.height,
    }
}

impl Format {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Gif => "image/gif",
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spacer_has_43_bytes() {
        assert_eq!(make(Motif::Spacer, "", 1, 0).file.len(), 43);
    }

    #[test]
    fn pictures_have_the_target_size_and_decode() {
        let motifs = [
            (Motif::Bullet, 120),
            (Motif::Rule, 200),
            (Motif::Label, 700),
            (Motif::Icon, 900),
            (Motif::Logo, 3000),
            (Motif::Banner, 9000),
            (Motif::Chart, 4000),
            (Motif::Thumbnail, 5000),
            (Motif::Photo, 1500),
            (Motif::Photo, 40_000),
        ];
        for (motif, target) in motifs {
            for seed in 0..6 {
                let picture = make(motif, "Longhaul", seed, target);
                let length = picture.file.len();
                let off = float(length.abs_diff(target)) / float(target);
                assert!(
                    off < 0.3,
                    "{motif:?}, seed {seed}: {length} bytes instead of {target}"
                );
                let decoded = image::load_from_memory(&picture.file).expect("a picture");
                let (width, height) = (decoded.width(), decoded.height());
                assert_eq!(
                    (usize::try_from(width).unwrap(), usize::try_from(height).unwrap()),
                    (picture.width, picture.height)
                );
            }
        }
    }

    #[test]
    fn a_decoded_photograph_is_similar_to_the_scene() {
        for seed in 0..12 {
            let raster = Scene::new(&mut Random::new(seed)).shoot(150, 107);
            let (file, wanted) = (encode::jpeg(&raster, 82).unwrap(), raster.to_rgb());
            let decoded = image::load_from_memory(&file).unwrap().to_rgb8();
            let pairs = decoded.as_raw().iter().zip(&wanted);
            let squares: u32 = pairs
                .map(|(one, other)| u32::from(one.abs_diff(*other)).pow(2))
                .sum();
            let mean = f64::from(squares) / f64::from(u32::try_from(wanted.len()).unwrap());
            let psnr = 10.0 * (255.0 * 255.0 / mean).log10();
            assert!(psnr > 25.0, "seed {seed}: {psnr} dB");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_file() {
        for motif in [Motif::Photo, Motif::Banner] {
            let file = || make(motif, "x", 5, 6000).file;
            assert_eq!(file(), file());
            assert_ne!(file(), make(motif, "x", 6, 6000).file);
        }
    }
}
