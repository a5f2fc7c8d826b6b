use super::*;

fn found(source: &str) -> Vec<(String, Vec<u8>)> {
    scan::tests(source)
        .into_iter()
        .map(|test| (test.name, test.rules))
        .collect()
}

#[test]
fn test_functions_hold_the_rules_of_their_name_and_of_the_line_above() {
    let check = |source: &str, name: &str, rules: &[u8]| {
        assert_eq!(
            found(source),
            [(name.to_owned(), rules.to_vec())],
            "{source}"
        );
    };
    check("#[test]\nfn rule_9_a() {", "rule_9_a", &[9]);
    check(
        "    #[tokio::test(start_paused = true)]\n    async fn rule_27_and_55_b() {",
        "rule_27_and_55_b",
        &[27, 55],
    );
    check("/// Holds rule 31.\n#[test]\nfn c() {", "c", &[31]);
    check(
        "// Why.\n// Holds rules 31, 32 and 33.\n#[test]\n#[cfg(unix)]\nfn rule_32_d(",
        "rule_32_d",
        &[31, 32, 33],
    );
    check(
        "#[test]\n// Holds rule 5.\nfn rule_7_3_dots() {",
        "rule_7_3_dots",
        &[5, 7],
    );
}

#[test]
fn a_mention_that_tests_nothing_holds_nothing() {
    for source in [
        "fn rule_9_helper() {",
        "// Holds rule 9.\nfn helper() {",
        "/// Holds rule 9.\nconst A: u8 = 1;\n#[test]\nfn a() {",
        "// Holds rule 9.\n\n#[test]\nfn a() {",
        "// As rule 9 demands.\n#[test]\nfn a() {",
        "// Holds rule 9, more or less.\n#[test]\nfn a() {",
        "// Holds rule 9 or so.\n#[test]\nfn a() {",
        "#[test]\n#[ignore = \"slow\"]\nfn rule_9_a() {",
        "#[test]\nfn rules_of_others() {",
        "let text = \"rule_9_a\";",
    ] {
        assert_eq!(found(source), [], "{source}");
    }
}

#[test]
fn rows_hold_the_rules_of_their_second_column_and_further_steps_none() {
    let table = "# C0\t9\nC1\t6,7\tW0\n.\t.\t.\nX1\t8\tW1\n";
    let pairs = [("C1", 6), ("C1", 7), ("X1", 8)].map(|(case, rule)| (case.to_owned(), rule));
    assert_eq!(scan::cases(table).unwrap(), pairs);
    assert!(scan::cases("C1\tsix\tW0").is_err());
}

#[test]
fn a_rule_without_test_and_a_test_without_rule_are_faults() {
    let titles = titles("# number, title\n1\tone\n2\ttwo").unwrap();
    let held = Held::from([(1, Holders::default()), (3, Holders::default())]);
    let faults = faults(&titles, &held);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains("rule 2 has no test: two"));
    assert!(faults[1].contains("no rule 3"));
    assert!(super::titles("1\tone\n1\tagain").is_err());
}

#[test]
fn every_rule_from_1_to_84_has_a_title() {
    let rules: Vec<u8> = titles(TITLES).unwrap().into_keys().collect();
    assert_eq!(rules, (1..=84).collect::<Vec<u8>>());
}

/// What hickory has for zones, catalogs, forwarding and sockets is not even linked: of its crates
/// only the one for messages is.
#[test]
fn rule_83_and_84_no_server_or_resolver_of_hickory_is_linked() {
    let lock = include_str!("../../../Cargo.lock");
    let hickory: Vec<&str> = lock
        .lines()
        .filter(|line| line.starts_with("name = \"hickory-"))
        .collect();
    assert_eq!(hickory, ["name = \"hickory-proto\""]);
}
