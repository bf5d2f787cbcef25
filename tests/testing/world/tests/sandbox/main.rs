//! Workers in their sandbox, and the removal of everything that belongs to them.
//!
//! The worker is this test program again; an environment variable selects one of [`TASKS`].
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]
#![expect(clippy::expect_used, reason = "a failed setup fails the test")]
#![expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
#![expect(clippy::print_stdout, reason = "output of the worker for the test")]

mod worker;

use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use longhaul_world::sandbox;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const TASK: &str = "LONGHAUL_WORLD_TEST_TASK";
/// Prefix of the lines that a task prints for the test, among those of the test harness.
const MARK: &str = "TASK: ";
const PATIENCE: Duration = Duration::from_secs(20);

fn sandboxed() -> Option<sandbox::Sandbox> {
    match sandbox::Sandbox::probe() {
        Ok(sandbox) => Some(sandbox),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

/// Arguments with which this program runs only the test `the_program_as_worker`.
const AS_WORKER: [&str; 3] = ["the_program_as_worker", "--exact", "--nocapture"];

fn start(sandbox: &sandbox::Sandbox, task: &str) -> Child {
    let program = env::current_exe().unwrap();
    let mut command = sandbox.command(program, AS_WORKER).unwrap();
    command.env(TASK, task).spawn().unwrap()
}

/// Returns the text after [`MARK`] of the next line that contains it.
fn next_line(output: &mut BufReader<ChildStdout>) -> String {
    loop {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "the worker has ended");
        // The harness prints text without a line end before it.
        if let Some((_, text)) = line.split_once(MARK) {
            return text.trim().to_owned();
        }
    }
}

/// Returns the ids of all processes whose namespace of this kind is `inode`.
fn processes_in(kind: &str, inode: &str) -> Vec<String> {
    let everyone = fs::read_dir("/proc").unwrap().flatten();
    everyone
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| {
            fs::read_link(format!("/proc/{pid}/ns/{kind}")).is_ok_and(|link| link.to_string_lossy() == inode)
        })
        .collect()
}

/// Returns the network namespaces of all threads of the machine.
fn network_namespaces() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(threads) = fs::read_dir(process.path().join("task")) else {
            continue;
        };
        for thread in threads.flatten() {
            if let Ok(link) = fs::read_link(thread.path().join("ns/net")) {
                found.insert(link.to_string_lossy().into_owned());
            }
        }
    }
    found
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "{what} did not happen in time");
        thread::yield_now();
    }
}

/// Data that a worker that stays reports about itself.
struct Staying {
    pid_namespace: String,
    net_namespaces: Vec<String>,
    worker: String,
    file: String,
}

impl Staying {
    fn read(output: &mut BufReader<ChildStdout>) -> Self {
        let line = next_line(output);
        let mut words = line.split(' ').map(str::to_owned);
        Self {
            pid_namespace: words.next().unwrap(),
            worker: words.next().unwrap(),
            file: words.next().unwrap(),
            net_namespaces: words.collect(),
        }
    }

    fn is_there(&self) {
        // `init`, the worker, its child and its orphan.
        assert!(processes_in("pid", &self.pid_namespace).len() >= 4);
        let all = network_namespaces();
        assert_eq!(
            self.net_namespaces
                .iter()
                .filter(|one| all.contains(*one))
                .count(),
            3
        );
        assert!(
            !fs::exists(&self.file).unwrap(),
            "{} is visible outside",
            self.file
        );
    }

    fn is_gone(&self, output: &mut BufReader<ChildStdout>) {
        // End of the output: all processes have closed it.
        output.read_to_end(&mut Vec::new()).unwrap();
        until("the end of all processes", || {
            processes_in("pid", &self.pid_namespace).is_empty()
        });
        until("the end of all namespaces", || {
            let all = network_namespaces();
            self.net_namespaces.iter().all(|one| !all.contains(one))
        });
        assert!(!fs::exists(&self.file).unwrap());
    }
}

/// Returns the id of a process in its innermost namespace.
fn id_inside(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status
        .lines()
        .find(|line| line.starts_with("NSpid:"))
        .unwrap_or_default();
    ids.split_whitespace().next_back().unwrap_or_default().to_owned()
}

fn signal(pid: &str, signal: Signal) {
    kill(Pid::from_raw(pid.parse().unwrap()), signal).unwrap();
}

#[test]
fn killing_the_sandbox_ends_all_processes_of_the_worker() {
    let Some(sandbox) = sandboxed() else { return };
    let mounts_before = mounts();
    let mut child = start(&sandbox, "stay");
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let staying = Staying::read(&mut output);
    staying.is_there();
    assert_eq!(mounts(), mounts_before);
    child.kill().unwrap();
    child.wait().unwrap();
    staying.is_gone(&mut output);
    assert_eq!(mounts(), mounts_before);
}

#[test]
fn killing_the_worker_ends_all_of_its_processes() {
    let Some(sandbox) = sandboxed() else { return };
    let mut child = start(&sandbox, "stay");
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let staying = Staying::read(&mut output);
    let is_worker = |pid: &String| id_inside(pid) == staying.worker;
    let worker = processes_in("pid", &staying.pid_namespace)
        .into_iter()
        .find(is_worker);
    signal(&worker.expect("the worker"), Signal::SIGKILL);
    let _stdin = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 9));
    staying.is_gone(&mut output);
}

#[test]
fn killing_the_parent_ends_all_processes_of_the_worker() {
    if sandboxed().is_none() {
        return;
    }
    let mut parent = Command::new(env::current_exe().unwrap())
        .args(AS_WORKER)
        .env(TASK, "parent")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(parent.stdout.take().unwrap());
    let staying = Staying::read(&mut output);
    staying.is_there();
    parent.kill().unwrap();
    parent.wait().unwrap();
    staying.is_gone(&mut output);
}

#[test]
fn killing_the_parent_ends_a_stopped_worker() {
    let Some(sandbox) = sandboxed() else { return };
    let mut child = start(&sandbox, "stay");
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let staying = Staying::read(&mut output);
    for pid in processes_in("pid", &staying.pid_namespace) {
        if id_inside(&pid) != "1" {
            signal(&pid, Signal::SIGSTOP);
        }
    }
    drop(child.stdin.take());
    staying.is_gone(&mut output);
    child.wait().unwrap();
}

#[test]
fn a_worker_has_private_files_name_resolution_and_children() {
    let Some(sandbox) = sandboxed() else { return };
    let mut child = start(&sandbox, "look around");
    let mut output = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(next_line(&mut output), "done");
    output.read_to_end(&mut Vec::new()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn entering_without_a_sandbox_is_an_error() {
    assert!(matches!(sandbox::enter(), Err(sandbox::EnterError::NotSandboxed)));
}

/// Not a test: the entry point of this program as a worker, or as a parent that will be killed.
#[test]
fn the_program_as_worker() {
    let Ok(task) = env::var(TASK) else { return };
    match task.as_str() {
        "parent" => {
            let mut command = sandboxed()
                .unwrap()
                .command(env::current_exe().unwrap(), AS_WORKER)
                .unwrap();
            let mut child = command
                .env(TASK, "stay")
                .stdout(Stdio::inherit())
                .spawn()
                .unwrap();
            // Waiting would close it if the handle still contained it.
            let _stdin = child.stdin.take();
            child.wait().unwrap();
        }
        "stay" => worker::stay(),
        "look around" => worker::look_around(),
        other => panic!("no task {other}"),
    }
}
