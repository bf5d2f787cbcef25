//! HTML documents in the style of 2003, with tables and font elements, built from blocks that can change
//! individually.
use std::fmt::Write as _;

use super::{
    Variety, pad, script,
    words::{self, CLASSES, NOUNS, PLACES, SECTIONS, capital, headline, key, person, prose, sentence, token},
};
use crate::reference::{
    numbers::{float, floor},
    random::{Random, derive},
};

/// An image in the markup.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// URL as written: with host and without scheme, or only the path.
    pub(crate) url: String,
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// True if it illustrates a text; false if it is in a row of images.
    pub(crate) is_photo: bool,
}

/// Common parts of all documents of a site.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) name: String,
    pub(crate) styles: Vec<String>,
    pub(crate) scripts: Vec<String>,
    pub(crate) frames: Vec<String>,
    /// Number of elements with a background image.
    pub(crate) backgrounds: usize,
    pub(crate) variety: Variety,
}

/// A part of a document, whose text is derived from `seed`.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    kind: Kind,
    /// Indices of its images.
    pub(crate) images: Vec<usize>,
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Teaser,
    Strip,
    Links,
    Story,
    Table,
    Form,
    Data,
}

/// Maximum bytes of the markup of an image in a row; reserved while blocks without images are added.
const IMAGE_RESERVE: usize = 170;
/// Number of images in a row.
const STRIP: usize = 5;
/// Share of the last paragraph in a document, so that later editions can differ in length.
const FILLER: f32 = 0.03;

/// Selects the blocks of a document of `length` bytes that shows all of `images`.
pub(crate) fn layout(template: &Template, images: &[Shown], length: usize, seed: u64) -> Vec<Block> {
    let random = &mut Random::new(seed);
    let fixed = head(template).len() + foot(template).len();
    let filler = floor(float(length) * FILLER).max(120);
    let budget = length.saturating_sub(fixed + filler);
    let (mut blocks, mut used, mut shown) = (Vec::new(), 0, 0);
    loop {
        let left = images.len() - shown;
        let due = floor(float(images.len()) * float(used) / float(budget.max(1))).saturating_sub(shown);
        let mut kind = text_kind(random, template.variety);
        let mut count = 0;
        let full = used + left * IMAGE_RESERVE >= budget;
        if left > 0 && (due > 0 || full) {
            let is_photo = images.get(shown).is_some_and(|image| image.is_photo);
            kind = if is_photo && !full {
                Kind::Teaser
            } else {
                Kind::Strip
            };
            let row = images.iter().skip(shown).take(STRIP.min(due.max(1)));
            let small = row.take_while(|image| full || !image.is_photo).count();
            count = if kind == Kind::Teaser { 1 } else { small.max(1) };
        }
        let block = Block {
            kind,
            images: (shown..shown + count).collect(),
            seed: random.next(),
        };
        let text = render_block(template, images, &block, blocks.len());
        if count == 0 && used + text.len() + left * IMAGE_RESERVE > budget {
            if left == 0 {
                return blocks;
            }
            used = budget;
            continue;
        }
        used += text.len();
        shown += count;
        blocks.push(block);
    }
}

/// Returns the document of these blocks, `length` bytes long.
pub(crate) fn render(template: &Template, images: &[Shown], blocks: &[Block], length: usize) -> String {
    let mut html = head(template);
    for (number, block) in blocks.iter().enumerate() {
        html.push_str(&render_block(template, images, block, number));
    }
    let foot = foot(template);
    let (open, close) = ("<p class=\"small foot\">", "</p>\n");
    let missing = length.saturating_sub(html.len() + foot.len() + open.len() + close.len());
    if missing > 20 {
        let random = &mut Random::new(derive(0, &template.name, blocks.len()));
        let words = prose(random, missing);
        html.push_str(open);
        html.push_str(whole_words(&words, missing));
        html.push_str(close);
    }
    let end = length.saturating_sub(foot.len());
    pad(&mut html, end);
    html.push_str(&foot);
    html
}

/// Replaces the text of a block by another of about the same length.
pub(crate) fn rewrite(template: &Template, images: &[Shown], block: &Block, number: usize) -> Block {
    let before = render_block(template, images, block, number).len();
    let candidates = (1..=12).map(|attempt| Block {
        seed: derive(block.seed, "edition", attempt),
        ..block.clone()
    });
    let nearest = candidates.min_by_key(|block| {
        render_block(template, images, block, number)
            .len()
            .abs_diff(before)
    });
    nearest.unwrap_or_else(|| block.clone())
}

/// Returns a document for a frame: an advertisement with its images.
pub(crate) fn frame(images: &[Shown], length: usize, seed: u64) -> String {
    let random = &mut Random::new(seed);
    let mut html = String::from(
        "<!DOCTYPE html PUBLIC \"-//W3C//DTD HTML 4.01 Transitional//EN\" \"http://www.w3.org/TR/html4/loose.dtd\">\n\
         <html>\n<head>\n<title>Advertisement</title>\n</head>\n<body bgcolor=\"#ffffff\" style=\"margin: 0\">\n",
    );
    for image in images {
        let _ = writeln!(
            html,
            "<a href=\"/click/{}\">{}</a>",
            token(random, 16),
            img(random, image)
        );
    }
    let end = "</p>\n</body>\n</html>\n";
    html.push_str("<p>");
    let missing = length.saturating_sub(html.len() + end.len());
    let words = prose(random, missing);
    html.push_str(whole_words(&words, missing));
    pad(&mut html, length.saturating_sub(end.len()));
    html.push_str(end);
    html
}

/// Returns as many whole words as fit.
fn whole_words(words: &str, length: usize) -> &str {
    let cut = words.get(..length).unwrap_or(words);
    cut.rfind(' ').and_then(|end| cut.get(..end)).unwrap_or_default()
}

fn head(template: &Template) -> String {
    let name = &template.name;
    let build = key(&mut Random::new(derive(0, name, 0)), 48);
    let mut html = format!(
        "<!DOCTYPE html PUBLIC \"-//W3C//DTD HTML 4.01 Transitional//EN\" \"http://www.w3.org/TR/html4/loose.dtd\">\n\
         <html lang=\"en\">\n<head>\n<meta http-equiv=\"Content-Type\" content=\"text/html; charset=utf-8\">\n\
         <meta name=\"build\" content=\"{build}\">\n<title>{name}</title>\n<link rel=\"icon\" href=\"data:,\">\n"
    );
    for url in &template.styles {
        let _ = writeln!(html, "<link rel=\"stylesheet\" type=\"text/css\" href=\"{url}\">");
    }
    for url in &template.scripts {
        let _ = writeln!(html, "<script type=\"text/javascript\" src=\"{url}\"></script>");
    }
    html.push_str(
        "</head>\n<body bgcolor=\"#ffffff\" text=\"#000000\" link=\"#003366\" vlink=\"#666666\">\n",
    );
    for number in 0..template.backgrounds {
        let _ = writeln!(html, "<div class=\"bg{number}\">{name}</div>");
    }
    html
}

fn foot(template: &Template) -> String {
    let mut html = String::new();
    for url in &template.frames {
        let _ = writeln!(
            html,
            "<iframe src=\"{url}\" width=\"468\" height=\"90\" frameborder=\"0\" scrolling=\"no\"></iframe>"
        );
    }
    let _ = write!(
        html,
        "<p class=\"foot\">&copy; 2003 {}. <a href=\"/about\">About us</a> | <a href=\"/terms\">Terms</a></p>\n\
         </body>\n</html>\n",
        template.name
    );
    html
}

fn text_kind(random: &mut Random, variety: Variety) -> Kind {
    if random.chance(variety.chance(0.0, 0.75)) {
        return Kind::Story;
    }
    match random.below(10) {
        0..4 => Kind::Links,
        4..8 => Kind::Table,
        8 => Kind::Form,
        _ => Kind::Data,
    }
}

fn render_block(template: &Template, images: &[Shown], block: &Block, number: usize) -> String {
    let random = &mut Random::new(block.seed).with_evenness(template.variety.0);
    let shown = || block.images.iter().filter_map(|&index| images.get(index));
    match block.kind {
        Kind::Teaser => shown()
            .map(|image| teaser(random, image, template.variety))
            .collect(),
        Kind::Strip => strip(random, shown(), template.variety),
        Kind::Links => links(random, template.variety),
        Kind::Story => story(random, template.variety),
        Kind::Table => table(random, template.variety),
        Kind::Form => form(random, template.variety),
        Kind::Data => format!(
            "<script type=\"text/javascript\">\n{}</script>\n",
            script::data(random, number, template.variety)
        ),
    }
}

fn img(random: &mut Random, image: &Shown) -> String {
    let Shown {
        url, width, height, ..
    } = image;
    let alt = capital(NOUNS.pick(random));
    format!("<img src=\"{url}\" width=\"{width}\" height=\"{height}\" border=\"0\" alt=\"{alt}\">")
}

/// Returns the target of a link: a plain path, or a path with date and tokens.
fn link(random: &mut Random, variety: Variety) -> String {
    let (section, noun) = (SECTIONS.pick(random), NOUNS.pick(random));
    if !random.chance(variety.chance(0.08, 1.0)) {
        return format!("/{section}/{noun}.html");
    }
    let (month, day) = (random.range(1, 12), random.range(1, 28));
    let id = token(random, 8);
    if random.chance(variety.chance(0.0, 1.0)) {
        let session = key(random, 28);
        return format!("/2003/{section}/{month:02}/{day:02}/{noun}.{id}/index.html?sid={session}");
    }
    format!("/2003/{section}/{month:02}/{day:02}/{noun}.{id}/")
}

/// Opens a table cell, with the attributes that editors of the time wrote into every cell.
fn cell(random: &mut Random, variety: Variety) -> &'static str {
    if random.chance(variety.chance(1.0, 0.25)) {
        "        <td width=\"120\" align=\"left\" valign=\"top\" bgcolor=\"#ffffff\" nowrap><font \
         face=\"Verdana, Arial, Helvetica, sans-serif\" size=\"-1\" color=\"#333333\">"
    } else {
        "        <td class=\"cell\"><font size=\"-1\">"
    }
}

fn teaser(random: &mut Random, image: &Shown, variety: Variety) -> String {
    let href = link(random, variety);
    let mut text = sentence(random);
    if random.chance(variety.chance(0.0, 0.7)) {
        text.push_str(&sentence(random));
    }
    format!(
        "<table width=\"100%\" border=\"0\" cellspacing=\"0\" cellpadding=\"4\">\n    <tr>\n        <td \
         valign=\"top\"><a href=\"{href}\">{}</a></td>\n{}<a href=\"{href}\"><b>{}</b></a><br>\n        {}</font></td>\n    \
         </tr>\n</table>\n",
        img(random, image),
        cell(random, variety),
        headline(random),
        text.trim_end()
    )
}

fn strip<'a>(random: &mut Random, images: impl Iterator<Item = &'a Shown>, variety: Variety) -> String {
    let mut html = String::from("<div class=\"menu\">\n");
    for image in images {
        if image.width * image.height < 100 {
            let _ = writeln!(html, "    {}", img(random, image));
        } else {
            let href = link(random, Variety(variety.0 * 0.4));
            let _ = writeln!(html, "    <a href=\"{href}\">{}</a>", img(random, image));
        }
    }
    html.push_str("</div>\n");
    html
}

fn links(random: &mut Random, variety: Variety) -> String {
    let mut html = format!(
        "<table width=\"160\" border=\"0\" cellspacing=\"0\" cellpadding=\"2\">\n    <tr><th class=\"head\">{}</th></tr>\n",
        capital(SECTIONS.pick(random))
    );
    for _ in 0..random.range(3, 7) {
        let text = if random.chance(variety.chance(0.35, 0.9)) {
            headline(random)
        } else {
            capital(NOUNS.pick(random))
        };
        let _ = writeln!(
            html,
            "    <tr>\n{}<a href=\"{}\">{text}</a></font></td>\n    </tr>",
            cell(random, variety),
            link(random, variety)
        );
    }
    html.push_str("</table>\n");
    html
}

fn story(random: &mut Random, variety: Variety) -> String {
    let mut html = format!("<h3>{}</h3>\n", headline(random));
    if random.chance(0.5) {
        let _ = writeln!(
            html,
            "<p class=\"{}\">By {}, {}</p>",
            CLASSES.pick(random),
            person(random),
            PLACES.pick(random)
        );
    }
    for _ in 0..random.range(1, 3) {
        let length = random.range(160, 420);
        let _ = writeln!(html, "<p>{}</p>", prose(random, length));
    }
    let _ = writeln!(
        html,
        "<p><a href=\"{}\">Full story</a></p>",
        link(random, variety)
    );
    html
}

fn table(random: &mut Random, variety: Variety) -> String {
    let mut html = String::from("<table width=\"468\" border=\"0\" cellspacing=\"1\" cellpadding=\"2\">\n");
    for _ in 0..random.range(3, 7) {
        html.push_str("    <tr>\n");
        let (price, change) = (random.below(90_000), random.below(900));
        let columns = [
            words::surname(random),
            PLACES.pick(random).to_owned(),
            format!("{}.{:02}", price / 100, price % 100),
            format!("{}.{}%", change / 10, change % 10),
        ];
        for text in columns {
            let _ = writeln!(html, "{}{text}</font></td>", cell(random, variety));
        }
        html.push_str("    </tr>\n");
    }
    html.push_str("</table>\n");
    html
}

fn form(random: &mut Random, variety: Variety) -> String {
    let mut html = format!(
        "<form action=\"/{}/search\" method=\"get\">\n<input type=\"hidden\" name=\"session\" value=\"{}\">\n<select \
         name=\"{}\">\n",
        SECTIONS.pick(random),
        token(random, if variety.0 > 0.5 { 16 } else { 8 }),
        NOUNS.pick(random)
    );
    for number in 0..random.range(4, 12) {
        let _ = writeln!(
            html,
            "    <option value=\"{number}\">{}</option>",
            PLACES.pick(random)
        );
    }
    html.push_str("</select>\n<input type=\"submit\" value=\"Search\">\n</form>\n");
    html
}
