//! The tables and curves of the papers, with today's figures beside them.
mod ablation;
mod figures;
mod gprs;
mod parts;
mod pep;
mod study;
mod umts;

use maud::{Markup, html};

use self::{
    figures::Figures,
    parts::{Part, Section, paragraph},
};
use crate::{markup::Text, page, results::Results};

/// A converted picture, for the papers' table of picture quality.
#[derive(Clone, Debug, PartialEq)]
pub struct PictureFigure {
    /// Image level.
    pub level: String,
    /// Size of the original.
    pub bytes_in: u64,
    /// Size of the result.
    pub bytes_out: u64,
    /// Peak signal-to-noise ratio on luminance, in dB, of a lossy result.
    pub luminance_psnr_db: Option<f64>,
}

/// What the report is made of.
#[derive(Clone, Debug, Default)]
pub struct PaperReport {
    /// Results files with their names.
    pub files: Vec<(String, Results)>,
    /// Converted pictures.
    pub pictures: Vec<PictureFigure>,
    /// Notes on the run: its form, and what else the machine did.
    pub notes: Vec<String>,
}

const TITLE: &str = "The papers' tables with today's figures";

impl PaperReport {
    /// Returns the report as one self-contained HTML page.
    pub fn html(&self) -> String {
        let sections = self.sections();
        let contents: Vec<_> = sections
            .iter()
            .map(|section| (section.anchor, section.title))
            .collect();
        let body = html! {
            @for section in &sections { (section.html()) }
        };
        page::document(TITLE, &self.introduction(), &contents, &body)
    }

    /// Returns the tables in GitHub's Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for words in self.words() {
            text.push_str(&format!("{words}\n\n"));
        }
        for section in self.sections() {
            text.push_str(&section.markdown());
        }
        text
    }

    /// Returns the four sites of WWAN-STUDY as one SVG file; empty without their loads.
    pub fn drawing(&self) -> String {
        study::drawing(&Figures::of(&self.files)).into_string()
    }

    fn introduction(&self) -> Markup {
        html! {
            p class="quiet" {
                (page::provenance(self.files.get(..1).unwrap_or_default()))
                @if self.files.len() > 1 {
                    br;
                    (self.files.len()) " results files: "
                    (Text(&self.files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")))
                }
            }
            "\n"
            @for words in self.words() {
                (paragraph(&words))
            }
        }
    }

    fn words(&self) -> Vec<String> {
        let figures = Figures::of(&self.files);
        let mut words = vec![
            "The papers measured live pages over live cellular networks between 2002 and 2005. Here, the scripted browser \
             loads generated pages of the same sizes and numbers of objects over emulated links of the same rates and round \
             trips (docs/BENCHMARKING.md). Absolute seconds therefore differ; the relations between the columns are what can \
             be compared. All figures are medians of the repetitions."
                .to_owned(),
            format!(
                "{} loads, {} of them with failures, which no figure contains.",
                figures.count(),
                figures.failed()
            ),
        ];
        words.extend(self.notes.iter().cloned());
        words
    }

    fn sections(&self) -> Vec<Section> {
        let figures = Figures::of(&self.files);
        let mut sections = study::sections(&figures);
        sections.extend(pep::sections(&figures, &self.pictures));
        sections.extend(umts::sections(&figures));
        sections.push(gprs::section(&figures));
        sections.push(ablation::section(&figures));
        sections.push(not_repeated());
        sections
    }
}

/// What the papers have and this report has not.
fn not_repeated() -> Section {
    let reasons = [
        "WWAN-STUDY Table 4, lossy compression alone: the gateway's proxy cannot compress pictures without compressing text.",
        "WWAN-STUDY, adaptive FEC (5 % at an error rate of 0.2 %, 21.9 % at 0.9 %): Longhaul repeats what is lost and sends no \
         redundancy, so there is no technique to switch.",
        "WWAN-STUDY Tables 10 and 11 (CDMA 1x and dial-up): a case study of networks, not of techniques; the links `cdma-1x` and \
         `dialup` exist for `longhaul-bench pages`.",
        "TCP-WWAN's window of a known bandwidth-delay product: the kernel offers no such clamp for one connection. Its place \
         have BBR and a send buffer of two bandwidth-delay products (decision 48).",
        "PEP-WWAN Table IV, the six pictures: the paper does not publish them. The pictures of the reference pages take their place.",
        "PEP-WWAN, Macara and NettGain themselves, and the browsers of the time: the programs are not available.",
        "UMTS-PROXY Table 1, loads without persistent connections: no browser of today loads so; `direct-http10` can.",
        "UMTS-PROXY's connection timelines (Figures 6 to 8): they show one browser's behaviour; the report of `longhaul-bench \
         report` has waterfalls instead.",
        "GPRS-WWW, time-sequence plots of TCP on GPRS (Figures 2 to 6): `longhaul-bench transport` has the queueing delays.",
    ];
    Section {
        anchor: "absent",
        title: "What could not be repeated",
        parts: reasons
            .into_iter()
            .map(|reason| Part::Words(reason.to_owned()))
            .collect(),
    }
}

#[cfg(test)]
mod tests;
