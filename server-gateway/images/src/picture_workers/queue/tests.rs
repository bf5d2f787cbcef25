use super::*;

const MIB: u64 = 1 << 20;
const CAPACITY: Capacity = Capacity {
    memory: 256 * MIB,
    workers: 2,
};

fn small(mib: u64) -> Demand {
    Demand {
        memory: mib * MIB,
        is_large: false,
    }
}

fn large(mib: u64) -> Demand {
    Demand {
        memory: mib * MIB,
        is_large: true,
    }
}

/// Starts all images that can start.
fn begun(queue: &mut Queue<char>) -> Vec<Ticket<char>> {
    std::iter::from_fn(|| queue.next()).collect()
}

fn devices(tickets: &[Ticket<char>]) -> String {
    tickets.iter().map(|ticket| ticket.device).collect()
}

#[test]
fn devices_take_turns_whatever_their_jobs() {
    let mut queue = Queue::new(CAPACITY);
    for _ in 0..6 {
        queue.push('a', small(1)).unwrap();
    }
    queue.push('b', small(1)).unwrap();
    queue.push('c', small(1)).unwrap();
    let mut order = String::new();
    let mut working = begun(&mut queue);
    while !working.is_empty() {
        order.push_str(&devices(&working));
        for ticket in working {
            queue.end(ticket);
        }
        working = begun(&mut queue);
    }
    assert_eq!(order.len(), 8);
    assert!(order.starts_with("abc"), "{order}");
}

#[test]
fn a_single_device_uses_all_workers_but_one() {
    let mut queue = Queue::new(CAPACITY);
    for _ in 0..5 {
        queue.push('a', small(1)).unwrap();
    }
    assert_eq!(devices(&begun(&mut queue)), "aa");
    queue.push('b', small(1)).unwrap();
    queue.push('c', small(1)).unwrap();
    assert_eq!(devices(&begun(&mut queue)), "b");
    assert_eq!((queue.working(), queue.waiting()), (3, 4));
}

#[test]
fn large_pictures_leave_room_for_small_ones() {
    let mut queue = Queue::new(CAPACITY);
    for device in ['a', 'b', 'c'] {
        queue.push(device, large(90)).unwrap();
    }
    assert_eq!(devices(&begun(&mut queue)), "ab");
    queue.push('d', small(20)).unwrap();
    assert_eq!(devices(&begun(&mut queue)), "d");
    assert_eq!(queue.memory(), 200 * MIB);
    let mut queue = Queue::new(CAPACITY);
    queue.push('a', large(192)).unwrap();
    queue.push('a', large(10)).unwrap();
    queue.push('b', large(10)).unwrap();
    queue.push('a', small(16)).unwrap();
    // The device's own small image overtakes its large one.
    assert_eq!(devices(&begun(&mut queue)), "aa");
    assert_eq!(queue.memory(), 208 * MIB);
    assert_eq!(queue.push('a', large(193)), Err(NoRoom::TooLarge));
    assert_eq!(queue.push('a', small(257)), Err(NoRoom::TooLarge));
}

#[test]
fn small_pictures_do_not_starve_a_large_one() {
    let mut queue = Queue::new(Capacity {
        memory: 256 * MIB,
        workers: 40,
    });
    for _ in 0..15 {
        queue.push('a', small(16)).unwrap();
    }
    let mut working = begun(&mut queue);
    assert_eq!(working.len(), 15);
    queue.push('b', large(190)).unwrap();
    let mut rounds = 0;
    while queue.waiting() > 0 && rounds < 100 {
        rounds += 1;
        queue.end(working.remove(0));
        // As many as ended, and one more.
        queue.push('a', small(16)).unwrap();
        working.extend(begun(&mut queue));
        if working.iter().any(|ticket| ticket.device == 'b') {
            return;
        }
    }
    panic!("the large picture never began");
}

#[test]
fn a_cancelled_waiter_frees_its_place() {
    let mut queue = Queue::new(CAPACITY);
    let tickets: Vec<_> = (0..MOST_WAITING)
        .map(|_| queue.push('a', large(90)).unwrap())
        .collect();
    assert_eq!(queue.push('a', small(1)), Err(NoRoom::TooMany));
    assert!(queue.push('b', small(1)).is_ok());
    queue.cancel(tickets[0]);
    queue.cancel(tickets[0]);
    assert!(queue.push('a', small(1)).is_ok());
    let working = begun(&mut queue);
    assert_eq!(devices(&working).replace('b', ""), "aa");
    // Cancelling a running image has no effect.
    queue.cancel(tickets[1]);
    assert_eq!(queue.working(), 3);
    for ticket in &tickets {
        queue.cancel(*ticket);
    }
    assert_eq!(queue.waiting(), 1, "the small one");
    for ticket in working {
        queue.end(ticket);
    }
    assert_eq!(devices(&begun(&mut queue)), "a");
    assert!(queue.turns.is_empty() && queue.waiting.is_empty());
}

/// The limits hold in any order of events, and no image waits while there are free resources for it.
#[test]
fn bounds_hold_in_any_order() {
    for seed in 1..200_u64 {
        let mut random = seed;
        let mut draw = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % most
        };
        let mut queue = Queue::new(CAPACITY);
        let (mut waiting, mut working) = (Vec::new(), Vec::new());
        for _ in 0..300 {
            match draw(4) {
                0 | 1 => {
                    let device = ['a', 'b', 'c'][usize::try_from(draw(3)).unwrap()];
                    let demand = if draw(2) == 0 {
                        large(draw(200))
                    } else {
                        small(draw(17))
                    };
                    waiting.extend(queue.push(device, demand));
                }
                2 if !working.is_empty() => {
                    let place = usize::try_from(draw(working.len() as u64)).unwrap();
                    queue.end(working.swap_remove(place));
                }
                3 if !waiting.is_empty() => {
                    let place = usize::try_from(draw(waiting.len() as u64)).unwrap();
                    queue.cancel(waiting.swap_remove(place));
                }
                _ => {}
            }
            working.extend(begun(&mut queue));
            let large = queue.taken(|demand| demand.is_large);
            assert!(queue.memory() <= CAPACITY.memory, "seed {seed}");
            assert!(large <= CAPACITY.large_memory(), "seed {seed}");
            assert!(queue.working() <= CAPACITY.workers + 1, "seed {seed}");
            assert!(queue.working() > 0 || queue.waiting() == 0, "seed {seed}");
            assert_eq!(queue.turns.len(), queue.waiting.len(), "seed {seed}");
        }
    }
}
