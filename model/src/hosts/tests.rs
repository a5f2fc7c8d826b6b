use super::*;

const EXAMPLE: &str = include_str!("../../../docs/examples/prod-1/hosts");

#[test]
fn the_worked_example_parses_without_findings() {
    let hosts = Hosts::parse(EXAMPLE.as_bytes()).unwrap();
    assert_eq!(hosts.findings, []);
    assert_eq!(
        (hosts.content_lines, hosts.skipped, hosts.entries.len()),
        (8, 0, 9)
    );
}
