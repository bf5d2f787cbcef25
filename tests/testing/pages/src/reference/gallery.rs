//! The images of a page: purpose, URL and changes.
use bytes::Bytes;

use super::{
    catalogue::Recipe,
    files::Place,
    picture::{self, Motif, Picture},
    random::{Random, derive},
    sizes,
    text::markup::Shown,
};

/// An image of a page.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) motif: Motif,
    pub(super) place: Place,
    pub(super) body: Bytes,
    pub(super) media_type: &'static str,
    /// Change in the next edition.
    pub(super) change: Change,
    /// Number of the edition in which it was introduced.
    pub(super) since: usize,
    seed: u64,
    host: String,
    number: usize,
    width: usize,
    height: usize,
}

/// Change of an image in a later edition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// No change.
    None,
    /// Another image replaces it, under a new URL.
    Replaced,
    /// Another image is stored under its URL.
    Overwritten,
}

/// Bytes of the smallest picture with this motif.
const BULLETS: usize = 75;
const PHOTOS: usize = 1800;
/// Maximum number of photographs that are created again to meet the total size.
const CORRECTIONS: usize = 8;

/// Draws the images of a page, in the order in which the page shows them.
pub(super) fn draw(recipe: &Recipe, seed: u64, hosts: &[String], total: usize) -> Vec<Slot> {
    let count = recipe.published.objects - 1 - recipe.styles - recipe.scripts - recipe.frames;
    let random = &mut Random::new(derive(seed, "images", 0));
    let mut slots = Vec::new();
    // The deviation of one picture from its size is compensated by the next, larger one.
    let (mut wanted, mut made) = (0, 0);
    for (number, size) in sizes::images(recipe, count, total).into_iter().enumerate() {
        wanted += size;
        let target = wanted
            .saturating_sub(made)
            .clamp(size - size / 4, size + size / 4);
        let (lowest, highest) = recipe.images;
        let target = target.clamp(lowest, highest);
        let motif = motif(random, target);
        let picture = picture::make(motif, recipe.name, derive(seed, "image", number), target);
        made += picture.file.len();
        slots.push(Slot::new(motif, picture, number, derive(seed, "image", number)));
    }
    correct(recipe, &mut slots, total);
    random.shuffle(&mut slots);
    for (position, slot) in slots.iter_mut().enumerate() {
        slot.host = host(hosts, position, slot.motif);
        slot.place = (slot.host.clone(), slot.path(""));
    }
    slots
}

/// Creates some of the larger photographs again, so that all images together have `total` bytes within a
/// thousandth.
fn correct(recipe: &Recipe, slots: &mut [Slot], total: usize) {
    for index in (0..slots.len()).rev().take(CORRECTIONS) {
        let made: usize = slots.iter().map(|slot| slot.body.len()).sum();
        if made.abs_diff(total) * 1000 <= total {
            return;
        }
        let Some(slot) = slots.get_mut(index).filter(|slot| slot.is_photo()) else {
            continue;
        };
        let size = slot.body.len();
        let target = (size + total).saturating_sub(made).min(recipe.images.1);
        let picture = picture::make(slot.motif, recipe.name, slot.seed, target.max(size / 2));
        if picture.file.len().abs_diff(target) < size.abs_diff(target) {
            *slot = Slot::new(slot.motif, picture, slot.number, slot.seed);
        }
    }
}

/// Selects the images that the next edition replaces: about an eighth of them, at most a fifth of their
/// bytes, the first one overwritten. `fixed` returns true for images that must keep their URL.
pub(super) fn plan_changes(slots: &mut [Slot], seed: u64, fixed: impl Fn(usize) -> bool) {
    let random = &mut Random::new(derive(seed, "changes", 0));
    let total: usize = slots.iter().map(|slot| slot.body.len()).sum();
    let mut order: Vec<usize> = (0..slots.len()).collect();
    random.shuffle(&mut order);
    // News pages change their photographs, not their buttons.
    order.sort_by_key(|&index| slots.get(index).is_none_or(|slot| !slot.is_photo()));
    let limit = (slots.len() + 2) / 8;
    let (mut count, mut bytes) = (0, 0);
    for index in order {
        let Some(slot) = slots.get_mut(index) else {
            continue;
        };
        if count >= limit {
            return;
        }
        let size = slot.body.len();
        if slot.motif == Motif::Spacer || (bytes + size) * 5 > total {
            continue;
        }
        slot.change = match (fixed(index), count) {
            (true, 1..) => continue,
            (true, _) | (false, 1) => Change::Overwritten,
            (false, _) => Change::Replaced,
        };
        count += 1;
        bytes += size;
    }
}

impl Slot {
    fn new(motif: Motif, picture: Picture, number: usize, seed: u64) -> Self {
        Self {
            motif,
            place: Place::default(),
            media_type: picture.format.media_type(),
            change: Change::None,
            since: 1,
            seed,
            host: String::new(),
            number,
            width: picture.width,
            height: picture.height,
            body: picture.file.into(),
        }
    }

    /// Returns the image at this position in a later edition.
    pub(super) fn next(&self, name: &str, edition: usize) -> Self {
        if self.change == Change::None {
            return self.clone();
        }
        let mut next = self.another(name, &format!("edition-{edition}"), "");
        next.since = edition;
        if self.change == Change::Overwritten && next.media_type == self.media_type {
            next.place = self.place.clone();
        }
        next
    }

    /// Returns another image of the same kind and size, whose path begins with `folder`.
    pub(super) fn another(&self, name: &str, label: &str, folder: &str) -> Self {
        let seed = derive(self.seed, label, 0);
        let picture = picture::make(self.motif, name, seed, self.body.len());
        let mut slot = Self::new(self.motif, picture, self.number, seed);
        slot.change = self.change;
        slot.since = self.since;
        slot.host.clone_from(&self.host);
        slot.place = (slot.host.clone(), slot.path(folder));
        slot
    }

    /// Returns true if it illustrates a text.
    pub(super) fn is_photo(&self) -> bool {
        matches!(
            self.motif,
            Motif::Photo | Motif::Thumbnail | Motif::Banner | Motif::Chart
        )
    }

    /// Returns the image as a document at `host` shows it.
    pub(super) fn shown(&self, host: &str) -> Shown {
        Shown {
            url: reference(&self.place, host),
            width: self.width,
            height: self.height,
            is_photo: self.is_photo(),
        }
    }

    fn path(&self, folder: &str) -> String {
        let ending = match self.media_type {
            "image/jpeg" => "jpg",
            "image/png" => "png",
            _ => "gif",
        };
        let folder = folder.trim_end_matches('/');
        if self.is_photo() {
            let token = self.seed >> 40;
            format!("{folder}/photos/{:02}.{token:06x}.{ending}", self.number)
        } else {
            let kind = format!("{:?}", self.motif).to_ascii_lowercase();
            let token = self.seed >> 56;
            format!("{folder}/img/{kind}{:02}-{token:02x}.{ending}", self.number)
        }
    }
}

/// Returns a document's reference at `host` to a file: without scheme, so that it works under both.
pub(super) fn reference((own, path): &Place, host: &str) -> String {
    if own == host {
        path.clone()
    } else {
        format!("//{own}{path}")
    }
}

/// The first images are distributed over all hosts except the page's own; the others as on real sites: one
/// host for images, one for advertisements, a few images on the others.
fn host(hosts: &[String], position: usize, motif: Motif) -> String {
    let last = hosts.len() - 1;
    let index = match (position, motif) {
        (0.., _) if last == 0 => 0,
        (0.., _) if position < last => position + 1,
        (_, Motif::Banner) if last > 1 => 2,
        (0.., _) if position % 9 == 8 => position % hosts.len(),
        _ => 1,
    };
    hosts.get(index).cloned().unwrap_or_default()
}

/// Returns a motif for an image of this size.
fn motif(random: &mut Random, size: usize) -> Motif {
    use Motif::{Banner, Bullet, Chart, Icon, Label, Logo, Photo, Rule, Spacer, Thumbnail};
    match size {
        0..BULLETS => Spacer,
        BULLETS..170 => Bullet,
        170..330 => random.pick(&[Rule, Bullet, Label, Icon]),
        330..PHOTOS => random.pick(&[Label, Label, Icon, Label, Icon, Logo]),
        PHOTOS..4000 => random.pick(&[Photo, Photo, Photo, Icon, Logo, Thumbnail, Banner]),
        4000..9000 => random.pick(&[Photo, Photo, Photo, Thumbnail, Banner, Chart, Logo]),
        9000..20_000 => random.pick(&[Photo, Photo, Photo, Photo, Thumbnail, Banner, Chart]),
        _ => Photo,
    }
}
