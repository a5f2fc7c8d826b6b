use super::*;

#[test]
fn text_that_is_no_yaml_is_one_error_with_its_position_in_plain_words() {
    for (rest, expected) in [
        ("  \tttl: 3", "5:3: a tab stands in the indentation"),
        (
            "\u{a0} ttl: 3",
            "5:1: ttl: a space that is none (U+00A0) stands in the indentation",
        ),
        (
            "  addresses: [192.0.2.1",
            "not valid YAML: a list or mapping in brackets is not closed",
        ),
        (
            "  addresses: \"192.0.2.1",
            "5:14: not valid YAML: a quoted text, list or mapping is not closed",
        ),
        (
            "   ttl: 3",
            "5:7: not valid YAML: a second colon on one line",
        ),
        (
            " ttl: 3",
            "5:2: not valid YAML: the indentation does not fit",
        ),
        (
            "  addresses: *other",
            "5:14: a value cannot begin with `*` in YAML",
        ),
        (
            "  staticRecords:\n    - { name: @, address: 192.0.2.1 }",
            "6:15: a value cannot begin with `@` in YAML",
        ),
        (
            "  staticRecords:\n    - name: *.web",
            "6:13: a value cannot begin with `*` in YAML",
        ),
        ("  ttl: !!int 30", "5:8: YAML tags"),
        (
            "  addresses: &a [*a]",
            "5:18: this alias stands inside the value it refers to",
        ),
    ] {
        check(&with_dns("example.org", rest), &[expected]);
    }
    check(
        "apiVersion: x\ndns:\n\tzone: example.org\n",
        &["3:1: a tab stands in the indentation"],
    );
}

#[test]
fn a_file_without_content_is_told_how_to_begin() {
    for text in [
        "",
        "\u{feff}",
        "\n\n",
        "# nothing\n",
        "---\n",
        "null\n",
        "~",
    ] {
        check(
            text,
            &["1:1: the file is empty; begin with `apiVersion: agent.tsunaro.io/v1alpha1`"],
        );
    }
}

#[test]
fn a_file_that_is_no_mapping_is_refused() {
    check(
        "- a\n- b\n",
        &["1:1: expected a mapping (`field: value`), found a list"],
    );
    check(
        "zone\n",
        &["1:1: expected a mapping (`field: value`), found the text `zone`"],
    );
}

#[test]
fn a_second_document_is_refused_and_the_first_one_still_checked() {
    let text = with_dns("example.org", "  ttl: 0\n---\nkind: Other");
    check(
        &text,
        &[
            "5:8: dns.ttl: `0`",
            "6:1: a second YAML document begins here",
        ],
    );
}

#[test]
fn a_byte_order_mark_changes_nothing() {
    assert_eq!(parse(&format!("\u{feff}{EXAMPLE}")), parse(EXAMPLE));
}

#[test]
fn windows_line_ends_change_nothing() {
    assert_eq!(parse(&EXAMPLE.replace('\n', "\r\n")), parse(EXAMPLE));
}

#[test]
fn anchors_and_aliases_repeat_values() {
    let config = valid(&with_dns(
        "example.org",
        "  addresses: &a [192.0.2.1]\nroutes: { egressTargets: *a }",
    ));
    assert_eq!(
        config.routes.unwrap().egress_targets,
        [Ipv4Addr::new(192, 0, 2, 1)]
    );
}

#[test]
fn a_short_file_cannot_grow_without_bound() {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (from, to) in ["a", "b", "c", "d", "e", "f", "g"]
        .iter()
        .zip(["b", "c", "d", "e", "f", "g", "h"])
    {
        text += &format!(
            "{to}: &{to} [*{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}]\n"
        );
    }
    check(&text, &["the file is nested or repeated too much"]);
    check(&"[".repeat(10_000), &["the file is nested too deeply"]);
    check(
        &"- ".repeat(10_000),
        &["the file is nested or repeated too much"],
    );
}
