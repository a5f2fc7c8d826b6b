//! docs/controller-status.md has every name that people meet.

const PAGE: &str = include_str!("../../docs/controller-status.md");
const METRICS: &str = include_str!("../src/metrics.rs");
const NAMES: &str = include_str!("../src/reconcile/names.rs");

#[test]
fn every_condition_and_reason_is_on_the_page() {
    let names = NAMES.lines().filter_map(|line| {
        let (_, value) = line
            .trim()
            .strip_prefix("pub const ")?
            .split_once(" = \"")?;
        value.strip_suffix("\";")
    });
    let mut count = 0;
    for name in names {
        count += 1;
        assert!(
            PAGE.contains(&format!("`{name}`")) || PAGE.contains(&format!("### {name}\n")),
            "{name}"
        );
    }
    assert!(count > 50, "{count}");
}

#[test]
fn every_metric_is_on_the_page() {
    let registered = METRICS.split("registry.register(").skip(1);
    let names: Vec<&str> = registered
        .map(|call| call.split('"').nth(1).unwrap())
        .collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        let name = format!("| `tsunaro_controller_{name}");
        assert!(PAGE.contains(&name), "{name}");
    }
}
