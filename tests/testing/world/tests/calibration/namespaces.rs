//! Execution of work inside namespaces.
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
};

use tokio::sync::oneshot;

use crate::traffic::{machine, profile, wait, world};

#[test]
fn programs_started_in_a_namespace_run_in_it() {
    let _machine = machine();
    let Some(world) = world(profile("lan-fast")) else {
        return;
    };
    let addresses = |namespace: &longhaul_world::Namespace| {
        namespace.run_blocking(|| {
            let output = Command::new("ip").args(["-brief", "address"]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        })
    };
    let (client, gateway) = (addresses(world.client()), addresses(world.gateway()));
    assert!(
        client.contains("10.78.0.2/24") && !client.contains("10.78.0.1"),
        "{client}"
    );
    assert!(
        gateway.contains("10.78.0.1/24") && gateway.contains("10.78.1.1/24"),
        "{gateway}"
    );
    assert!(!client.contains("fe80"), "no IPv6: {client}");
    // Includes threads of the blocking pool, which look up names.
    let of_pool = wait(world.client().run(|| async {
        let link = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        (link(), tokio::task::spawn_blocking(link).await.unwrap())
    }));
    assert_eq!(of_pool.0, of_pool.1);
}

#[test]
fn a_panic_in_a_namespace_reaches_the_caller() {
    let _machine = machine();
    let Some(world) = world(profile("lan-fast")) else {
        return;
    };
    let client = world.client();
    let failed = catch_unwind(AssertUnwindSafe(|| client.run_blocking(|| panic!("blocking"))));
    assert_eq!(failed.unwrap_err().downcast_ref::<&str>(), Some(&"blocking"));
    let failing = AssertUnwindSafe(|| wait(client.run(|| async { panic!("async") })));
    assert_eq!(
        catch_unwind(failing).unwrap_err().downcast_ref::<&str>(),
        Some(&"async")
    );
    assert_eq!(client.run_blocking(|| 7), 7, "the thread still runs");
}

#[test]
fn dropping_the_returned_future_cancels_the_work() {
    let _machine = machine();
    let Some(world) = world(profile("lan-fast")) else {
        return;
    };
    let (alive, ended) = oneshot::channel::<()>();
    wait(async {
        let endless = world.client().run(move || async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        tokio::select! {
            biased;
            () = endless => unreachable!(),
            () = tokio::task::yield_now() => {}
        }
        assert!(ended.await.is_err());
    });
}

#[test]
fn dropping_a_world_ends_its_namespaces() {
    let _machine = machine();
    let Some(world) = world(profile("lan-fast")) else {
        return;
    };
    let (client, hop) = (world.client().clone(), world.hop().clone());
    let (alive, ended) = oneshot::channel::<()>();
    wait(client.run(move || async move {
        tokio::task::spawn_local(async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
    }));
    drop(world);
    assert!(wait(ended).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| client.run_blocking(|| ()))).is_err());
    // The counters are still readable.
    assert_eq!(hop.snapshot().down.offered.packets, 0);
}
