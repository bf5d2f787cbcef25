//! What the worker does inside of its sandbox.
use std::{env, fs, process::Command, sync::Arc, thread};

use longhaul_netem::Profile;
use longhaul_world::{CLIENT, DNS_SERVER, World, WorldConfig, sandbox};
use parking_lot::Mutex;

use super::{MARK, PATIENCE, until};

/// Holds a world, a child, an orphan and a file until it is killed.
pub(super) fn stay() {
    let inside = sandbox::enter().unwrap();
    let world = world();
    let namespaces = [world.client(), world.gateway(), world.origins()].map(|namespace| {
        namespace.run_blocking(|| {
            fs::read_link("/proc/thread-self/ns/net")
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
    });
    let file = env::temp_dir().join("leftover");
    assert!(file.starts_with(inside.scratch()));
    fs::write(&file, "anything").unwrap();
    let mut child = world.client().run_blocking(|| {
        // The inner shell's child outlives it and is adopted by `init`.
        Command::new("sh")
            .args(["-c", "sh -c 'tail -f /dev/null & true'; exec tail -f /dev/null"])
            .spawn()
            .unwrap()
    });
    let of_processes = fs::read_link("/proc/self/ns/pid").unwrap();
    until("an adopted orphan", || {
        has_child_of_init_besides(std::process::id())
    });
    // Only now is the inner shell reaped, and no other process ends by itself.
    until("the shell's end", || {
        fs::read_to_string(format!("/proc/{}/comm", child.id())).is_ok_and(|name| name.trim_end() == "tail")
    });
    println!(
        "{MARK}{} {} {} {}",
        of_processes.display(),
        std::process::id(),
        file.display(),
        namespaces.join(" ")
    );
    child.wait().unwrap();
}

fn has_child_of_init_besides(worker: u32) -> bool {
    let children = fs::read_to_string("/proc/1/task/1/children").unwrap_or_default();
    children.split_whitespace().any(|pid| pid != worker.to_string())
}

pub(super) fn look_around() {
    let inside = sandbox::enter().unwrap();
    assert!(env::temp_dir().starts_with(inside.scratch()));
    assert_eq!(fs::read_dir(env::temp_dir()).unwrap().count(), 0);
    let world = world();
    names_are_resolved_by_the_server_of_the_world(&world);
    exit_statuses_arrive(&world);
    println!("{MARK}done");
}

/// Tests that `getent` in the client namespace queries 10.78.1.53, and only for the name itself.
fn names_are_resolved_by_the_server_of_the_world(world: &World) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let socket = world
        .origins()
        .run_blocking(|| std::net::UdpSocket::bind((DNS_SERVER, 53)).unwrap());
    let server = thread::spawn(move || {
        let mut query = vec![0; 512];
        while let Ok((len, client)) = socket.recv_from(&mut query) {
            if len == 0 {
                return;
            }
            let question = String::from_utf8_lossy(&query[12..len]).into_owned();
            log.lock().push(question);
            // A response with the code NXDOMAIN.
            query[2..4].copy_from_slice(&[0x81, 0x83]);
            socket.send_to(&query[..len], client).unwrap();
        }
    });
    let output = block_on(world.client().run(|| async {
        let mut command = tokio::process::Command::new("getent");
        command.args(["ahostsv4", "example"]).output().await.unwrap()
    }));
    assert_eq!(output.status.code(), Some(2), "not found: {output:?}");
    // An empty datagram ends the server.
    world.client().run_blocking(|| {
        let socket = std::net::UdpSocket::bind((CLIENT, 0)).unwrap();
        socket.send_to(&[], (DNS_SERVER, 53)).unwrap();
    });
    server.join().unwrap();
    let asked = asked.lock();
    assert!(!asked.is_empty());
    for question in asked.iter() {
        assert!(question.starts_with("\u{7}example\0"), "{question:?}");
    }
}

fn exit_statuses_arrive(world: &World) {
    let statuses = block_on(world.client().run(|| async {
        let mut statuses = Vec::new();
        for code in 0..20 {
            let script = format!("(true &); exit {code}");
            let status = tokio::process::Command::new("sh")
                .args(["-c", &script])
                .status()
                .await;
            statuses.push(status.unwrap().code());
        }
        statuses
    }));
    assert_eq!(statuses, (0..20).map(Some).collect::<Vec<_>>());
    until("all orphans reaped", || {
        !has_child_of_init_besides(std::process::id())
    });
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.expect("too slow") })
}

fn world() -> World {
    World::build(WorldConfig {
        hop: Profile::named("lan-fast").unwrap().into(),
        internet: Profile::named("lan-fast").unwrap().into(),
        seed: 1,
        congestion: None,
    })
    .unwrap()
}
