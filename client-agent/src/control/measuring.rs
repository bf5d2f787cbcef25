//! Measurement of the link by a button: a page of the journal directly and through the agent, by the program
//! `longhaul speed`, which is installed beside the agent.
use std::{path::PathBuf, process::Stdio};

use http::{Response, StatusCode};
use tokio::process::Command;

use super::{Control, text};
use crate::{dashboard::MAX_MEASURED, proxy_body::ProxyBody};

/// The program, beside this one.
const PROGRAM: &str = "longhaul";

impl Control {
    /// Loads a page of the journal directly and through this agent, and tells both times. A caller that leaves ends it.
    pub(super) async fn measure(&self, number: u64) -> Response<ProxyBody> {
        let requests = self.handles.journal.requests();
        let Some(page) = requests
            .iter()
            .find(|request| request.is_page && request.number == number)
        else {
            let words = "the journal has no page with this number".to_owned();
            return text(StatusCode::NOT_FOUND, words);
        };
        if self.metered.is_paid().await {
            let words = "this network is metered: every byte costs. Nothing was loaded; `longhaul speed --metered` measures \
                         nevertheless"
                .to_owned();
            return text(StatusCode::CONFLICT, words);
        }
        let Ok(_turn) = self.measuring.try_lock() else {
            let words = "another measurement runs; two at once would measure each other".to_owned();
            return text(StatusCode::CONFLICT, words);
        };
        let mut command = Command::new(program());
        command
            .args(["speed", "--yes", "--metered", "--limit"])
            .arg(format!("{MAX_MEASURED}B"))
            .arg("--state-dir")
            .arg(self.state_dir.path())
            .args(["--", &page.url])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        match command.output().await {
            Ok(output) if !output.stdout.is_empty() => text(
                StatusCode::OK,
                String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            ),
            Ok(output) => {
                let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                text(StatusCode::BAD_GATEWAY, error)
            }
            Err(error) => text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!(
                    "the program `{PROGRAM}`, which measures, cannot be run: {error}; install it beside the agent"
                ),
            ),
        }
    }
}

/// The program beside this one, else on the search path.
fn program() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX)));
    beside
        .filter(|program| program.is_file())
        .unwrap_or_else(|| PROGRAM.into())
}
