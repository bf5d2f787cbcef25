//! Conditions of the loads, from the arguments.
use std::collections::BTreeSet;

use crate::{
    cli::{DetailRows, PagesArgs, ReplayScheme},
    job::{Internet, OriginBehaviour, PageChoice, Picture},
    link::LinkChoice,
    loader::Loader,
    system::System,
};

/// Returns the schemes under which a page is loaded: a generated page has a fixed one.
pub(super) fn schemes(args: &PagesArgs, page: &PageChoice) -> BTreeSet<ReplayScheme> {
    match page {
        PageChoice::Reference(_) => [ReplayScheme::Recorded].into(),
        PageChoice::Recorded { .. } => args.scheme.iter().copied().collect(),
    }
}

pub(super) fn remembered_from(args: &PagesArgs, system: System) -> Option<LinkChoice> {
    let name = args
        .remembered_from
        .as_ref()
        .filter(|_| system == System::LonghaulRemembered)?;
    Some(LinkChoice::new(name, args.links_file.as_deref()))
}

pub(super) fn picture(args: &PagesArgs, loader: Loader) -> Picture {
    match (&args.screenshots, loader) {
        (Some(_), Loader::Chromium) => Picture::Taken,
        (None, _) | (_, Loader::Model) => Picture::None,
    }
}

pub(super) fn internet(args: &PagesArgs, loss_percent: f64) -> Internet {
    Internet {
        loss: loss_percent / 100.0,
        delay: args.internet.internet_delay,
        congestion: args.internet.congestion.clone(),
    }
}

pub(super) fn origin(args: &PagesArgs) -> OriginBehaviour {
    OriginBehaviour {
        think_time: args.origin.think_time,
        close_after: args.origin.close_after,
        keep_alive: !args.origin.no_keep_alive,
        keep_alive_timeout: args.origin.keep_alive_timeout,
    }
}

pub(super) fn keeps_detail(args: &PagesArgs, run: u32) -> bool {
    match args.detail {
        DetailRows::All => true,
        DetailRows::First => run == 1,
        DetailRows::None => false,
    }
}
