//! `longhaul-bench papers`: the loads of the papers' tables, and the report that repeats the tables.
use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Parser as _;
use longhaul_report::{PaperReport, PictureFigure};
use serde::Deserialize;

use crate::{
    CommandError,
    cli::{Cli, Command, ImagesArgs, PagesArgs, PapersArgs},
    environment::BuildSource,
    images, pages, run,
};

/// Pages of PEP-WWAN's Table I.
const PEP_PAGES: &str = "pep-cnn,bahn,ebay,alps,t-mobile,lastminute,starwars,samsung,snoopy,nasa";
/// The four sites of WWAN-STUDY.
const STUDY_PAGES: &str = "mail,yahoo,amazon,cnn";
/// Some of them, of less than 250 kB.
const PEP_SHORT: &str = "ebay,t-mobile,samsung,snoopy";
/// Pages of news sites on several hosts, for UMTS-PROXY.
const NEWS_PAGES: &str = "yahoo,bbc";
/// Repetitions of each load.
const RUNS: &str = "3";
const PICTURES: &str = "pictures.json";
/// Switches of the ablation.
const EACH: &str = "--without none --without each --only each --only none";

/// A results file and the arguments of `pages` that make it.
struct Measurement {
    file: &'static str,
    words: Vec<String>,
}

impl Measurement {
    /// `words` are separated by spaces.
    fn new(file: &'static str, words: &str) -> Self {
        Self {
            file,
            words: words.split_whitespace().map(str::to_owned).collect(),
        }
    }

    /// The same with further words.
    fn and(mut self, words: &str) -> Self {
        self.words.extend(words.split_whitespace().map(str::to_owned));
        self
    }
}

/// Runs the command.
///
/// # Errors
/// The machine lacks a requirement, or a file cannot be written. Loads without a result are named at the end.
pub async fn papers(args: &PapersArgs, source: BuildSource) -> Result<(), CommandError> {
    fs::create_dir_all(&args.out).map_err(|error| fault(&args.out, error))?;
    let mut problems = Vec::new();
    let mut files = Vec::new();
    for measurement in measurements(args.short) {
        let path = args.out.join(measurement.file);
        crate::say(&format!("{}: measuring", path.display()));
        let of_pages = pages_args(args, &measurement, &path)?;
        match pages::pages(&of_pages, source).await {
            Ok(()) => {}
            Err(CommandError::Incomplete(missing)) => problems.extend(missing),
            Err(error) => return Err(error),
        }
        files.push((measurement.file.to_owned(), run::load_results(&path)?));
    }
    let pictures = pictures(args, source)?;
    let report = PaperReport {
        files,
        pictures,
        notes: notes(args),
    };
    for (name, text) in [
        ("papers.html", report.html()),
        ("papers.md", report.markdown()),
        ("papers.svg", report.drawing()),
    ] {
        let path = args.out.join(name);
        fs::write(&path, text).map_err(|error| fault(&path, error))?;
    }
    crate::say(&format!("report in {}", args.out.join("papers.html").display()));
    if problems.is_empty() {
        Ok(())
    } else {
        Err(CommandError::Incomplete(problems))
    }
}

fn fault(path: &Path, source: std::io::Error) -> CommandError {
    CommandError::Report {
        path: path.to_owned(),
        source,
    }
}

fn notes(args: &PapersArgs) -> Vec<String> {
    let form = if args.short {
        "Short form (`longhaul-bench papers --short`): one run of each load, fewer pages and losses, and gateways that convert \
         pictures had loaded each page before (states `revisit` and `second-device`; the browser and the agent have empty caches). \
         Differences of a few per cent mean nothing."
            .to_owned()
    } else {
        format!("{RUNS} runs of each load.")
    };
    std::iter::once(form).chain(args.note.iter().cloned()).collect()
}

/// Returns the loads of all tables.
///
/// In the short form, gateways that convert pictures have loaded the page before: the conversion of a page's pictures takes
/// the processor for seconds, and on a machine that also does other things a single load measures these.
fn measurements(is_short: bool) -> Vec<Measurement> {
    let study = |words: &str| format!("--link gprs-3+1 --pages {STUDY_PAGES} {words}");
    let of_pep = if is_short { PEP_SHORT } else { PEP_PAGES };
    let pep = |words: &str| format!("--link gprs-3+1,umts-384 --pages {of_pep} {words}");
    let losses = if is_short { "0,2,5" } else { "0,1,2,3,4,5" };
    let umts =
        |words: &str| format!("--link umts-dch256 --pages {NEWS_PAGES} --internet-loss {losses} {words}");
    let (of_proxy, of_agent) = if is_short {
        ("--state revisit", "--state second-device")
    } else {
        ("--state cold", "--state cold")
    };
    let switched = if is_short { "yahoo" } else { STUDY_PAGES };
    let cold = if is_short { "" } else { "cold," };
    let ablation = |words: &str| format!("--pages {switched} --system longhaul {words}");
    vec![
        Measurement::new(
            "study-direct.json",
            &study(
                "--system direct,direct-pipelined,direct-6,direct-dns,url-rewriting,tcp-proxy,tcp-wwan \
                 --image-level original",
            ),
        ),
        Measurement::new(
            "study-text.json",
            &study("--system clientless-2 --image-level original"),
        )
        .and(of_proxy),
        Measurement::new(
            "study-low.json",
            &study(
                "--system clientless-2,clientless,clientless-pipelined,clientless-transparent,clientless-dns \
                 --image-level low",
            ),
        )
        .and(of_proxy),
        Measurement::new(
            "study-low-agent.json",
            &study("--system longhaul --image-level low"),
        )
        .and("--without none --without chk,delta,push")
        .and(of_agent),
        Measurement::new("pep-direct.json", &pep("--system direct --image-level original")),
        Measurement::new("pep-low.json", &pep("--system clientless --image-level low")).and(of_proxy),
        Measurement::new("pep-low-agent.json", &pep("--system longhaul --image-level low")).and(of_agent),
        Measurement::new(
            "umts-cold.json",
            &umts("--system direct,direct-pipelined,tcp-proxy,tcp-proxy-pipelined,longhaul"),
        )
        .and("--image-level original"),
        Measurement::new(
            "umts-cached.json",
            &umts("--system squid-cache,squid-pipelined,clientless,clientless-pipelined --state revisit"),
        )
        .and("--image-level original"),
        Measurement::new(
            "umts-closing.json",
            &umts("--system squid-cache,clientless --state revisit --keep-alive-timeout 200ms"),
        )
        .and("--image-level original"),
        Measurement::new(
            "pipelining.json",
            "--link gprs-3+1 --pages static --system direct-pipelined,tcp-wwan-pipelined \
             --outstanding 1,3,5,7,9,45 --image-level original",
        ),
        Measurement::new(
            "ablation-gprs.json",
            &ablation("--link gprs-3+1 --image-level medium"),
        )
        .and(&format!("--state {cold}second-device"))
        .and(EACH),
        Measurement::new(
            "ablation-umts.json",
            &ablation("--link umts-384 --image-level medium"),
        )
        .and(&format!("--state {cold}second-device"))
        .and(EACH),
        Measurement::new(
            "ablation-next.json",
            &ablation("--link umts-384 --state next-edition --image-level original"),
        )
        .and(EACH),
        Measurement::new(
            "ablation-first.json",
            &ablation("--link gprs-3+1,umts-384 --state first --image-level original"),
        )
        .and("--without none --without early"),
        Measurement::new(
            "ablation-lossy.json",
            &ablation("--link wlan-lossy --state cold --image-level original"),
        )
        .and("--without none --without nack --without credit --only nack --only credit --only none"),
    ]
}

fn pages_args(args: &PapersArgs, measurement: &Measurement, path: &Path) -> Result<PagesArgs, CommandError> {
    let mut words = vec!["longhaul-bench".to_owned(), "pages".to_owned()];
    words.extend(measurement.words.iter().cloned());
    words.extend(["--loader", "model", "--detail", "none"].map(str::to_owned));
    words.extend([
        "--runs".to_owned(),
        if args.short { "1" } else { RUNS }.to_owned(),
    ]);
    if let Some(jobs) = args.jobs {
        words.extend(["--jobs".to_owned(), jobs.to_string()]);
    }
    if args.resume {
        words.push("--resume".to_owned());
    }
    words.extend(["--json".to_owned(), path.display().to_string()]);
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Pages(pages)) => Ok(*pages),
        Ok(_) => Err(CommandError::Transport(
            "the words of a measurement are not those of `pages`".to_owned(),
        )),
        Err(error) => Err(CommandError::Transport(error.to_string())),
    }
}

/// The rows of the results of `images`, as far as the report needs them.
#[derive(Deserialize)]
struct Pictures {
    images: Vec<Picture>,
}

#[derive(Deserialize)]
struct Picture {
    level: String,
    bytes_in: u64,
    bytes_out: u64,
    outcome: String,
    luminance_psnr_db: Option<f64>,
}

/// Converts the pictures of the reference pages, and returns those that were not kept as they are.
fn pictures(args: &PapersArgs, source: BuildSource) -> Result<Vec<PictureFigure>, CommandError> {
    let path: PathBuf = args.out.join(PICTURES);
    if !(args.resume && path.exists()) {
        let pages = if args.short { STUDY_PAGES } else { "reference" };
        let path = path.display().to_string();
        let words = [
            "longhaul-bench",
            "images",
            "--pages",
            pages,
            "--effort",
            "standard",
            "--json",
            &path,
        ];
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Images(of_images)) => {
                let of_images: &ImagesArgs = &of_images;
                images::images(of_images, source)?;
            }
            Ok(_) => {
                return Err(CommandError::Transport(
                    "the words are not those of `images`".to_owned(),
                ));
            }
            Err(error) => return Err(CommandError::Transport(error.to_string())),
        }
    }
    let text = fs::read_to_string(&path).map_err(|error| fault(&path, error))?;
    let read: Pictures =
        serde_json::from_str(&text).map_err(|error| fault(&path, std::io::Error::other(error)))?;
    let converted = read
        .images
        .into_iter()
        .filter(|picture| picture.outcome == "lossy");
    Ok(converted
        .map(|picture| PictureFigure {
            level: picture.level,
            bytes_in: picture.bytes_in,
            bytes_out: picture.bytes_out,
            luminance_psnr_db: picture.luminance_psnr_db,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_every_measurement_are_arguments_of_pages() {
        let args = PapersArgs {
            out: PathBuf::from("papers"),
            short: false,
            jobs: Some(8),
            resume: true,
            note: Vec::new(),
        };
        for measurement in measurements(false).iter().chain(&measurements(true)) {
            let parsed = pages_args(&args, measurement, Path::new("x.json")).unwrap();
            for system in &parsed.system {
                assert!(system.parse::<crate::system::System>().is_ok(), "{system}");
            }
            assert!(!crate::switches::switches(&parsed).unwrap().is_empty());
            assert!(crate::select::pages(&parsed.pages).is_ok(), "{:?}", parsed.pages);
        }
    }
}
