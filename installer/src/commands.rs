//! The commands: calls of the library, and their output.
use std::{
    io::{self, BufRead as _, IsTerminal as _, Read as _, Write},
    process::ExitCode,
};

use anyhow::Context as _;
use longhaul::{
    agent_state::{self, AgentState},
    cli::{DemoArgs, DoctorArgs, DownArgs, EnrollArgs, KeygenArgs, SpeedArgs, StatusArgs, UpArgs},
    doctor,
    enroll::{self, Replace},
    keygen, running_agent,
    speed::{self, Load, SpeedError, SpeedOptions, Way},
    state_dir,
    status::{self},
    switch::{self, Report, SwitchError},
};
use longhaul_demo::{Demo, DemoOptions, Finished, Link};
use longhaul_types::{ByteCount, Invite};
use url::Url;

#[cfg(not(unix))]
use crate::end_signals_portable as end_signals;
#[cfg(unix)]
use crate::end_signals_unix as end_signals;

/// Input limit; an invite has less than 600 characters.
const MAX_LINE: u64 = 64 * 1024;

/// `longhaul demo`
pub(crate) fn demo(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        // Installed before anything starts, so that no signal causes the default action.
        let mut signals = end_signals::EndSignals::install()?;
        let once = args.once.is_some();
        tokio::select! {
            done = run_demo(args) => done,
            () = signals.received() => Ok(interrupted(once)),
        }
    })
}

/// A signal ends a demonstration normally, but interrupts a page load of `--once`.
fn interrupted(once: bool) -> ExitCode {
    if once {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

async fn run_demo(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let options = DemoOptions {
        resolve: args.resolve,
        extra_ca: args.extra_ca,
        warc: args.warc,
        link: args.link.and_then(Link::profile),
    };
    let mut demo = Demo::start(options).await?;
    let Some(url) = args.once else {
        if let Some(link) = demo.link() {
            compare(&mut demo, &link).await?;
        }
        print(&demo.instructions())?;
        return Err(demo.watch().await.into());
    };
    let url = match url.or(args.page) {
        Some(url) => url,
        None => demo.default_page()?,
    };
    let finished = demo.load_once(&url).await?;
    if args.json {
        print(&(serde_json::to_string(&finished.report)? + "\n"))?;
    } else {
        print(&summary(&url, &finished))?;
        explain(&finished)?;
    }
    Ok(if finished.report.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Loads the page over both ways, prints both times, and starts the page that shows them.
async fn compare(demo: &mut Demo, link: &str) -> anyhow::Result<()> {
    let page = demo.default_page()?;
    print(&format!(
        "{link}\nLoading {page} directly and through Longhaul ...\n\n"
    ))?;
    let finished = demo.load_once(&page).await?;
    if let Some(comparison) = finished.comparison() {
        print(&format!("{}\n", comparison.bars()))?;
        demo.show(&comparison).await?;
    }
    Ok(explain(&finished)?)
}

fn summary(url: &Url, finished: &Finished) -> String {
    let report = &finished.report;
    let comparison = finished.comparison();
    let bars = comparison
        .map(|comparison| format!("\n{}", comparison.bars()))
        .unwrap_or_default();
    format!(
        "{url}\n  objects      {} ({} failed)\n  on the hop   {} down, {} up\n  from the web {}\n  saved        {}\n  time         {:.2} s\n  \
         ideal        {:.1} s on GPRS, {:.1} s on UMTS (one-shot download, text as by gzip -9)\n{bars}",
        report.objects,
        report.failed,
        ByteCount::new(report.bytes_down),
        ByteCount::new(report.bytes_up),
        ByteCount::new(report.origin_bytes),
        signed(report.savings.bytes),
        report.time_s,
        report.ideal_gprs_s,
        report.ideal_umts_s,
    )
}

/// A number of bytes that may be negative: more bytes on the hop than from origins.
fn signed(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", ByteCount::new(bytes.unsigned_abs()))
}

fn explain(finished: &Finished) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    if finished.missing > 0 {
        writeln!(
            stderr,
            "{} objects are not in the recording (not counted)",
            finished.missing
        )?;
    }
    for error in &finished.report.errors {
        writeln!(stderr, "failed: {}\n        {}", error.url, error.reason)?;
    }
    for (url, reason) in finished.direct.iter().flat_map(|direct| &direct.failures) {
        writeln!(stderr, "failed directly: {url}\n        {reason}")?;
    }
    Ok(())
}

/// `longhaul keygen`
pub(crate) fn keygen(args: &KeygenArgs) -> anyhow::Result<ExitCode> {
    let key = keygen::generate()?;
    match &args.out {
        Some(path) => keygen::write_secret(&key, path)?,
        None => print(&format!("secret key: {}\n", key.to_secret_text()))?,
    }
    print(&format!("public key: {}\n", key.public()))?;
    Ok(ExitCode::SUCCESS)
}

/// `longhaul enroll`
pub(crate) fn enroll(args: &EnrollArgs) -> anyhow::Result<ExitCode> {
    let Some(invite) = read_invite(&args.line)? else {
        return Ok(ExitCode::from(2));
    };
    let state_dir = state_dir::find(args.state_dir.as_deref())?;
    let replace = if args.replace {
        Replace::Allow
    } else {
        Replace::Refuse
    };
    let path = enroll::enroll(&invite, &state_dir, replace)?;
    let state_flag = match &args.state_dir {
        Some(directory) => format!(" --state-dir {}", directory.display()),
        None => String::new(),
    };
    print(&format!(
        "This device is enrolled with the gateway at {}.\n  gateway's key  {}\n  device's key   {}\n  kept in        {}\n\n",
        invite.address(),
        invite.gateway(),
        invite.device().public(),
        path.display(),
    ))?;
    let Some(agent) = agent_state::find(&state_dir) else {
        print(&format!(
            "Next: start the agent with `longhaul-agent run{state_flag}`, and set your browser's HTTP proxy to 127.0.0.1 \
             port 3128.\n`longhaul status{state_flag}` shows whether the gateway answers.\n",
        ))?;
        return Ok(ExitCode::SUCCESS);
    };
    match running_agent::use_invite(&state_dir) {
        Ok(answer) => {
            print(&format!("Process {}: {answer}.\n", agent.pid))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            complain(&anyhow::anyhow!(
                "the invite is stored, but the running agent (process {}) still uses the earlier one: {error}; restart the \
                 agent",
                agent.pid
            ));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Reads an invite; a line that is none is reported, and `None` is returned.
fn read_invite(line: &str) -> anyhow::Result<Option<Invite>> {
    let mut line = line.to_owned();
    if line == "-" {
        line.clear();
        io::stdin()
            .take(MAX_LINE)
            .read_to_string(&mut line)
            .context("cannot read the invite from standard input")?;
    }
    match line.parse() {
        Ok(invite) => Ok(Some(invite)),
        Err(error) => {
            let error: longhaul_types::ParseInviteError = error;
            complain(&anyhow::Error::from(error));
            Ok(None)
        }
    }
}

/// `longhaul up`
pub(crate) fn up(args: &UpArgs) -> anyhow::Result<ExitCode> {
    let invite = match &args.line {
        Some(line) => match read_invite(line)? {
            Some(invite) => Some(invite),
            None => return Ok(ExitCode::from(2)),
        },
        None => None,
    };
    show(switch::up(args, invite.as_ref()), args.json)
}

/// `longhaul down`
pub(crate) fn down(args: &DownArgs) -> anyhow::Result<ExitCode> {
    show(switch::down(args), args.json)
}

/// `longhaul uninstall`
pub(crate) fn uninstall(args: &DownArgs) -> anyhow::Result<ExitCode> {
    show(switch::uninstall(args), args.json)
}

fn show(done: Result<Report, SwitchError>, json: bool) -> anyhow::Result<ExitCode> {
    let report = match done {
        Ok(report) => report,
        Err(error) => {
            let code = error.exit_code();
            complain(&error.into());
            return Ok(ExitCode::from(code));
        }
    };
    print(&if json { report.to_json() } else { report.to_text() })?;
    Ok(if report.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `longhaul status`
pub(crate) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let state_dir = state_dir::find(args.state_dir.as_deref())?;
    let state = AgentState::of(&state_dir);
    print(&if args.json {
        status::to_json(&state)
    } else {
        status::to_text(&state)
    })?;
    Ok(if status::is_working(&state) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `longhaul doctor`
pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let report = match doctor::examine(args) {
        Ok(report) => report,
        Err(error) => {
            complain(&error.into());
            return Ok(ExitCode::from(2));
        }
    };
    print(&if args.json {
        report.to_json()
    } else {
        report.to_text()
    })?;
    Ok(if report.is_healthy() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `longhaul speed`
pub(crate) fn speed(args: &SpeedArgs) -> anyhow::Result<ExitCode> {
    let state_dir = state_dir::find(args.state_dir.as_deref())?;
    let state = AgentState::of(&state_dir);
    let agent = speed::measurable(&state)?;
    let page = speed::choose(agent, args.url.as_ref())?;
    let options = SpeedOptions {
        page: page.url.clone(),
        loads: args.loads,
        limit: args.limit,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if !args.metered && runtime.block_on(speed::is_metered(agent))? {
        return Err(SpeedError::Metered.into());
    }
    let announcement = speed::announcement(&page, &options);
    if args.yes {
        write!(io::stderr(), "{announcement}")?;
    } else if !io::stdin().is_terminal() {
        return Err(SpeedError::NobodyToAsk.into());
    } else if !is_sure(&announcement)? {
        return Err(SpeedError::Declined.into());
    }
    let progress = |way: Way, load: &Load| {
        // If stderr is closed, nobody looks.
        let _ = writeln!(
            io::stderr(),
            "  {:<10} {:.2} s",
            way.name(),
            load.time.as_secs_f64()
        );
    };
    let measured = runtime.block_on(speed::measure(agent, &options, progress))?;
    print(&if args.json {
        speed::to_json(&measured)
    } else {
        format!("\n{}", speed::to_text(&measured))
    })?;
    Ok(if measured.failed() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Asks after the announcement whether to go on; no answer is no.
fn is_sure(announcement: &str) -> io::Result<bool> {
    write!(io::stderr(), "{announcement}Go on? [y/N] ")?;
    let mut line = String::new();
    io::stdin().lock().take(MAX_LINE).read_line(&mut line)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Prints the error of a command; all errors are shown here.
pub(crate) fn complain(error: &anyhow::Error) {
    // If stderr is closed, the error cannot be reported.
    let _ = writeln!(
        io::stderr(),
        "longhaul: {}",
        longhaul_types::error_text(error.as_ref())
    );
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
