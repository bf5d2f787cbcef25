//! What a machine must have for the loads.
use std::path::Path;

use crate::{
    CommandError,
    cli::{ImageLevel, PagesArgs},
    loader::Loader,
    system::System,
    worker::programs,
};

/// Checks that all required programs exist before the first load.
pub(super) fn require_programs(
    args: &PagesArgs,
    systems: &[System],
    bin_dir: &Path,
) -> Result<(), CommandError> {
    if systems.iter().any(|system| system.is_longhaul()) {
        let agent = programs::ours(bin_dir, "longhaul-agent")?;
        if args
            .image_level
            .iter()
            .any(|level| *level != ImageLevel::Original)
            && !knows(&agent, "--image-level")
        {
            return Err(programs::ProgramError::NoImageLevels.into());
        }
        if args.image_level.contains(&ImageLevel::Text) {
            return Err(programs::ProgramError::NoTextLevel.into());
        }
        if systems.contains(&System::LonghaulNopush) && !knows(&agent, "--no-push") {
            return Err(programs::ProgramError::NoPushFlag.into());
        }
        if systems.contains(&System::LonghaulHttps) && !knows(&agent, "--https-accelerate") {
            return Err(programs::ProgramError::NoHttpsFlag.into());
        }
        let gateway = programs::ours(bin_dir, "longhaul-gateway")?;
        if systems.contains(&System::LonghaulFixed) && !knows(&gateway, "--coding-effort") {
            return Err(programs::ProgramError::NoFixedEffort.into());
        }
    }
    if systems.contains(&System::Http2Pair) {
        programs::installed_from("nghttpx", "nghttp2-proxy")?;
    }
    if systems
        .iter()
        .any(|system| system.is_squid() || *system == System::Http2Pair)
    {
        programs::installed("squid")?;
    }
    if systems.contains(&System::Ziproxy) {
        programs::installed("ziproxy")?;
    }
    if systems.iter().any(|system| system.is_clientless()) {
        if args.image_level.contains(&ImageLevel::Text) {
            return Err(programs::ProgramError::NoTextLevel.into());
        }
        let gateway = programs::ours(bin_dir, "longhaul-gateway")?;
        if !knows(&gateway, "--clientless-listen") {
            return Err(programs::ProgramError::NoClientless.into());
        }
    }
    if systems.iter().any(|system| system.redirects()) {
        programs::installed_from("nft", "nftables")?;
    }
    if args.loader.contains(&Loader::Chromium) {
        programs::installed("chromium")?;
    }
    Ok(())
}

/// Returns true if this version of the agent or gateway has a flag.
fn knows(program: &Path, flag: &str) -> bool {
    let help = std::process::Command::new(program)
        .args(["run", "--help"])
        .output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains(flag))
}
