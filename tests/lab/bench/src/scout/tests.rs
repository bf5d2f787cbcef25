use longhaul_report::Detail;

use super::*;

fn object(key: &str, bytes: u64, sent: f64, first_byte: f64) -> DetailObject {
    DetailObject {
        key: key.to_owned(),
        bytes,
        sent: Some(sent),
        first_byte: Some(first_byte),
        ..DetailObject::default()
    }
}

fn row(link: &str, system: &str, objects: Vec<DetailObject>) -> Row {
    Row {
        page: "a".to_owned(),
        link: link.to_owned(),
        system: system.to_owned(),
        state: "cold".to_owned(),
        link_rtt_s: 0.6,
        cpu_browser_s: Some(1.5),
        detail: Some(Detail {
            objects,
            samples: Vec::new(),
        }),
        ..Row::default()
    }
}

#[test]
fn loads_of_users_are_compared_with_the_scouts() {
    let page = || object("page", 9, 0.0, 0.1);
    let rows = [
        row(
            NEAR,
            SCOUT,
            vec![page(), object("x", 70, 0.1, 0.2), object("y", 30, 0.2, 0.3)],
        ),
        row(NEAR, SCOUT, vec![page(), object("x", 70, 0.1, 0.2)]),
        row(
            "geo-sat",
            "longhaul-https",
            vec![
                page(),
                object("x", 70, 1.1, 1.7),
                object("z", 5, 1.2, 1.8),
                object("pushed", 5, 1.2, 1.2),
            ],
        ),
        row("geo-sat", "direct-h2", vec![page()]),
    ];
    let compared = compare(&rows);
    assert_eq!(compared.len(), 1);
    let one = &compared[0];
    assert_eq!((one.requests, one.found, one.late, one.late_found), (3, 1, 2, 1));
    assert_eq!((one.used_bytes, one.scouted_bytes), (70, 100));
    assert_eq!(one.repeated, Some((1, 2)));
    assert_eq!(one.leads, [1.0]);
    let table = table(&compared);
    assert!(
        table.contains("| a | geo-sat, cold | 1 of 3 | 1 of 2 | 70 % | 50 % | 1.00 s | 1.50 s |"),
        "{table}"
    );
    assert!(
        table.contains("| median of 1 | geo-sat, cold | 33 % | 50 % | 70 % |"),
        "{table}"
    );
}
