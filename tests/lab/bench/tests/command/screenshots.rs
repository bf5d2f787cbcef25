//! Screenshots of loaded pages.
use super::{
    bench, folder, json,
    pages::{number, rows},
    path, programs, run, stderr_text, worlds,
};

#[test]
fn screenshots_are_stored_and_compared_with_direct_ones() {
    if !worlds() || !programs() {
        return;
    }
    let folder = folder();
    let (results, pictures) = (path(&folder, "results.json"), path(&folder, "pictures"));
    let mut command = bench(&[
        "pages",
        "--link",
        "lte",
        "--pages",
        "altavista",
        "--loader",
        "chromium",
    ]);
    command.args(["--runs", "2", "--system", "direct,longhaul", "--screenshots"]);
    let output = run(command.arg(&pictures).arg("--json").arg(&results));
    assert!(output.status.success(), "{}", stderr_text(&output));
    let found = json(&results);
    assert_eq!(rows(&found).len(), 4);
    for row in rows(&found) {
        let name = row["screenshot"].as_str().expect("a picture");
        let png = std::fs::read(pictures.join(name)).expect("its file");
        assert!(png.starts_with(b"\x89PNG"), "{name}");
        assert_eq!(row["conditions"], "held still for pictures");
        // A generated page has no motion.
        assert_eq!(row["screenshot_no_worse"], true, "{row}");
        assert_eq!(number(row, "screenshot_noise"), 0.0, "{row}");
    }
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("pictures: 2 of 2 no worse"), "{table}");
}

#[test]
fn screenshots_require_chromium() {
    let folder = folder();
    let results = path(&folder, "results.json");
    let mut command = bench(&["pages", "--link", "lte", "--pages", "mail", "--system", "direct"]);
    command.arg("--screenshots").arg(path(&folder, "pictures"));
    let output = run(command.arg("--json").arg(&results));
    assert!(!output.status.success());
    assert!(
        stderr_text(&output).contains("--loader chromium"),
        "{}",
        stderr_text(&output)
    );
    assert!(!results.exists());
}
