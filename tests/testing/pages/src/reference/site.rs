//! Assembly of a reference page: images, the texts around them, and the changes of the next edition.
use bytes::Bytes;

use super::{
    catalogue::Recipe,
    files::{File, Files, Lifetime, Place},
    gallery::{self, Change, Slot, reference},
    numbers::float,
    random::{Random, derive},
    sizes,
    text::{
        Variety,
        markup::{self, Block, Shown, Template},
        script, style, words,
    },
};
use crate::answer::gzip;

/// Path prefix of the sibling page and its own images.
pub(super) const SIBLING: &str = "/more/";
/// Seed of all pages.
const SEED: u64 = 0x4c6f_6e67_6861_756c;
/// Steps of the search for the variety at which the text has the target compression ratio.
const SEARCH: usize = 12;
/// Number of other seeds tried afterwards, because a small page has few blocks.
const SALTS: usize = 24;
const NEAR: f32 = 0.0015;
/// Share of the page's own text that the next edition rewrites.
const REWRITTEN: f32 = 0.18;
/// Sites with at least this number of scripts have data in one of them, which changes with the page.
const DATA_SCRIPTS: usize = 5;

/// One edition of a page with all of its objects.
#[derive(Clone)]
pub(super) struct Site {
    recipe: &'static Recipe,
    edition: usize,
    pub(super) files: Files,
    slots: Vec<Slot>,
    /// Images shown as element backgrounds, and images of each frame; the page itself shows the others.
    backgrounds: Vec<usize>,
    frames: Vec<usize>,
    texts: Vec<Text>,
    variety: Variety,
    /// Seed of the page's own text.
    page: u64,
    blocks: Vec<Block>,
}

/// A text object of the page.
#[derive(Clone, Debug)]
struct Text {
    kind: TextKind,
    place: Place,
    length: usize,
    seed: u64,
    since: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKind {
    Style,
    Script,
    Frame,
}

/// Returns the host of the page itself.
pub(super) fn main_host(recipe: &Recipe) -> String {
    format!("www.{}.test", recipe.name)
}

/// Returns all hosts, the page's own first.
pub(super) fn hosts(recipe: &Recipe) -> Vec<String> {
    let others = ["images", "ads", "static", "media", "content", "stats", "search"];
    let others = others.iter().map(|name| format!("{name}.{}.test", recipe.name));
    std::iter::once(main_host(recipe))
        .chain(others)
        .take(recipe.hosts)
        .collect()
}

impl Site {
    pub(super) fn first(recipe: &'static Recipe) -> Self {
        let seed = derive(SEED, recipe.name, 0);
        let hosts = hosts(recipe);
        let total = usize::try_from(recipe.published.bytes).unwrap_or(usize::MAX);
        let slots = gallery::draw(recipe, seed, &hosts, total.saturating_sub(recipe.text));
        let mut site = Self {
            recipe,
            edition: 1,
            files: Files::default(),
            backgrounds: Vec::new(),
            frames: Vec::new(),
            texts: texts(recipe, seed, &hosts),
            slots,
            variety: Variety(0.5),
            page: derive(seed, "page", 0),
            blocks: Vec::new(),
        };
        site.assign_images();
        let (backgrounds, frames) = (site.backgrounds.clone(), site.frames.clone());
        let fixed = |index: usize| backgrounds.contains(&index) || frames.contains(&index);
        gallery::plan_changes(&mut site.slots, seed, fixed);
        site.find_variety();
        site.blocks = site.layout(site.page, &site.slots);
        site.files = site.assemble();
        site
    }

    /// Returns the site some hours later.
    pub(super) fn next(&self) -> Self {
        let mut next = self.clone();
        next.edition += 1;
        let slots = self.slots.iter();
        next.slots = slots
            .map(|slot| slot.next(self.recipe.name, next.edition))
            .collect();
        let scripts = next.texts.iter_mut().filter(|text| text.kind == TextKind::Script);
        if let (Some(data), true) = (scripts.last(), self.recipe.scripts >= DATA_SCRIPTS) {
            data.seed = derive(data.seed, "edition", next.edition);
            data.since = next.edition;
        }
        next.rewrite_blocks();
        next.files = next.assemble();
        next
    }

    /// Returns another page of the site, with the objects that only that page loads.
    pub(super) fn sibling(&self) -> Files {
        let mut files = Files::default();
        let mut slots = self.slots.clone();
        let photos = slots.iter_mut().filter(|slot| slot.is_photo());
        for slot in photos.step_by(2) {
            *slot = slot.another(self.recipe.name, "sibling", SIBLING);
        }
        let seed = derive(derive(SEED, self.recipe.name, 1), "page", 0);
        let (template, shown) = (self.template(), self.shown(&slots));
        let blocks = self.layout(seed, &slots);
        let html = markup::render(&template, &shown, &blocks, self.recipe.html);
        let place = (main_host(self.recipe), format!("{SIBLING}index.html"));
        files.insert(place, document(html, 1));
        for slot in slots.iter().filter(|slot| slot.place.1.starts_with(SIBLING)) {
            files.insert(slot.place.clone(), image(slot));
        }
        files
    }

    fn seed(&self) -> u64 {
        derive(SEED, self.recipe.name, 0)
    }

    /// Assigns some small images as backgrounds if there is a style sheet, and one image to each frame.
    fn assign_images(&mut self) {
        let small = |slot: &&(usize, &Slot)| !slot.1.is_photo() && slot.1.body.len() < 2500;
        let slots: Vec<(usize, &Slot)> = self.slots.iter().enumerate().collect();
        let backgrounds = match (self.recipe.styles, slots.len()) {
            (0, _) | (_, 0..6) => 0,
            (_, 6..24) => 1,
            _ => 3,
        };
        let small = slots.iter().filter(small).map(|slot| slot.0);
        self.backgrounds = small.take(backgrounds).collect();
        let free = slots.iter().map(|slot| slot.0).rev();
        self.frames = free
            .filter(|index| !self.backgrounds.contains(index))
            .take(self.recipe.frames)
            .collect();
    }

    /// Finds the variety at which the compression ratio of the page's text is nearest to the target: more
    /// variety compresses worse.
    fn find_variety(&mut self) {
        let (mut low, mut high) = (0.0, 1.0);
        let mut best = (f32::MAX, self.variety);
        for _ in 0..SEARCH {
            self.variety = Variety(f32::midpoint(low, high));
            let ratio = self.compressibility();
            let error = (ratio - self.recipe.gzip).abs();
            if error < best.0 {
                best = (error, self.variety);
            }
            if ratio < self.recipe.gzip {
                low = self.variety.0;
            } else {
                high = self.variety.0;
            }
        }
        self.variety = best.1;
        let mut page = self.page;
        for salt in 1..=SALTS {
            if best.0 <= NEAR * self.recipe.gzip {
                break;
            }
            self.page = derive(self.seed(), "page", salt);
            let error = (self.compressibility() - self.recipe.gzip).abs();
            if error < best.0 {
                (best.0, page) = (error, self.page);
            }
        }
        self.page = page;
    }

    /// Ratio of the size of all text by `gzip -9` to its plain size.
    fn compressibility(&self) -> f32 {
        let blocks = self.layout(self.page, &self.slots);
        let html = markup::render(
            &self.template(),
            &self.shown(&self.slots),
            &blocks,
            self.recipe.html,
        );
        let texts = self.texts.iter().enumerate();
        let texts = texts.map(|(number, text)| self.text(number, text)).chain([html]);
        let (mut plain, mut coded) = (0, 0);
        for text in texts {
            plain += text.len();
            coded += gzip(text.as_bytes()).len();
        }
        float(coded) / float(plain.max(1))
    }

    fn template(&self) -> Template {
        let host = main_host(self.recipe);
        let of = |kind: TextKind| {
            let texts = self.texts.iter().filter(|text| text.kind == kind);
            texts.map(|text| reference(&text.place, &host)).collect()
        };
        Template {
            name: words::capital(self.recipe.name),
            styles: of(TextKind::Style),
            scripts: of(TextKind::Script),
            frames: of(TextKind::Frame),
            backgrounds: self.backgrounds.len(),
            variety: self.variety,
        }
    }

    /// Returns the images that the page itself shows.
    fn shown(&self, slots: &[Slot]) -> Vec<Shown> {
        let host = main_host(self.recipe);
        let own = slots
            .iter()
            .enumerate()
            .filter(|(index, _)| !self.backgrounds.contains(index) && !self.frames.contains(index));
        own.map(|(_, slot)| slot.shown(&host)).collect()
    }

    fn layout(&self, seed: u64, slots: &[Slot]) -> Vec<Block> {
        markup::layout(&self.template(), &self.shown(slots), self.recipe.html, seed)
    }

    /// Rewrites some blocks, those with replaced images first.
    fn rewrite_blocks(&mut self) {
        let (template, shown) = (self.template(), self.shown(&self.slots));
        let random = &mut Random::new(derive(self.seed(), "rewrite", self.edition));
        let limit = float(self.blocks.len()) * REWRITTEN;
        for number in 0..self.blocks.len() {
            if random.chance(limit / float(self.blocks.len())) {
                let block = self.blocks.get(number);
                let rewritten = block.map(|block| markup::rewrite(&template, &shown, block, number));
                if let (Some(block), Some(rewritten)) = (self.blocks.get_mut(number), rewritten) {
                    *block = rewritten;
                }
            }
        }
    }

    fn text(&self, number: usize, text: &Text) -> String {
        let host = &text.place.0;
        match text.kind {
            TextKind::Style => {
                let backgrounds: Vec<String> = if number == 0 {
                    let slots = self.backgrounds.iter().filter_map(|&index| self.slots.get(index));
                    slots.map(|slot| reference(&slot.place, host)).collect()
                } else {
                    Vec::new()
                };
                style::sheet(text.seed, text.length, &backgrounds, self.variety)
            }
            TextKind::Script => script::script(text.seed, text.length, self.variety),
            TextKind::Frame => {
                let before = self.recipe.styles + self.recipe.scripts;
                let index = self.frames.get(number.saturating_sub(before));
                let slot = index.and_then(|&index| self.slots.get(index));
                let shown: Vec<Shown> = slot.iter().map(|slot| slot.shown(host)).collect();
                markup::frame(&shown, text.length, text.seed)
            }
        }
    }

    fn assemble(&self) -> Files {
        let mut files = Files::default();
        let html = markup::render(
            &self.template(),
            &self.shown(&self.slots),
            &self.blocks,
            self.recipe.html,
        );
        files.insert(
            (main_host(self.recipe), "/".to_owned()),
            document(html, self.edition),
        );
        for (number, text) in self.texts.iter().enumerate() {
            let body = Bytes::from(self.text(number, text));
            let (media_type, lifetime) = match text.kind {
                TextKind::Style => ("text/css; charset=utf-8", Lifetime::Week),
                // The script with data changes under its URL.
                TextKind::Script if self.recipe.scripts >= DATA_SCRIPTS => {
                    ("application/x-javascript", Lifetime::Validate)
                }
                TextKind::Script => ("application/x-javascript", Lifetime::Week),
                TextKind::Frame => ("text/html; charset=utf-8", Lifetime::Validate),
            };
            let file = File {
                media_type,
                body,
                lifetime,
                since: text.since,
            };
            files.insert(text.place.clone(), file);
        }
        for slot in &self.slots {
            files.insert(slot.place.clone(), image(slot));
        }
        files
    }
}

/// Returns style sheets, then scripts, then frames, with their share of the text that is not the page's own.
fn texts(recipe: &Recipe, seed: u64, hosts: &[String]) -> Vec<Text> {
    let random = &mut Random::new(derive(seed, "texts", 0));
    let frame = 1100.min((recipe.text - recipe.html) / 8);
    let rest = (recipe.text - recipe.html).saturating_sub(frame * recipe.frames);
    let own = sizes::texts(random, recipe.styles + recipe.scripts, rest);
    let lengths = own.into_iter().chain(std::iter::repeat_n(frame, recipe.frames));
    let text = |(number, length): (usize, usize)| {
        let (kind, host, path) = if number < recipe.styles {
            (TextKind::Style, 0, format!("/css/style{number}.css"))
        } else if number < recipe.styles + recipe.scripts {
            (TextKind::Script, 1, format!("/js/script{number}.js"))
        } else {
            (TextKind::Frame, 2, format!("/frames/ad{number}.html"))
        };
        let host = hosts
            .get(host)
            .or_else(|| hosts.first())
            .cloned()
            .unwrap_or_default();
        Text {
            kind,
            place: (host, path),
            length,
            seed: derive(seed, "text", number),
            since: 1,
        }
    };
    lengths.enumerate().map(text).collect()
}

fn document(html: String, since: usize) -> File {
    File {
        media_type: "text/html; charset=utf-8",
        body: html.into(),
        lifetime: Lifetime::Validate,
        since,
    }
}

fn image(slot: &Slot) -> File {
    let lifetime = match slot.change {
        Change::Overwritten => Lifetime::Validate,
        Change::None | Change::Replaced => Lifetime::Day,
    };
    File {
        media_type: slot.media_type,
        body: slot.body.clone(),
        lifetime,
        since: slot.since,
    }
}
