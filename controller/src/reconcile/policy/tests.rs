use serde_json::json;

use super::*;

fn need(routes: &[&str]) -> Need {
    let tags = BTreeSet::from(["tag:fabric".to_owned()]);
    Need {
        approvers: tags.clone(),
        tags,
        routes: routes.iter().map(|route| route.parse().unwrap()).collect(),
    }
}

#[test]
fn hujson_is_read_with_comments_and_final_commas_and_nothing_else_is() {
    let text = "// owners\n{ \"tagOwners\": { \"tag:a\": [], }, /* end */ }";
    assert_eq!(
        parse(text).unwrap(),
        json!({ "tagOwners": { "tag:a": [] } })
    );
    assert_eq!(parse("  \n").unwrap(), json!({}));
    assert_eq!(parse("[]"), Err(InvalidPolicy::NotAnObject));
    assert!(matches!(parse("{ a: 1 }"), Err(InvalidPolicy::Syntax(_))));
    assert!(matches!(parse("{"), Err(InvalidPolicy::Syntax(_))));
}

#[test]
fn what_the_base_says_stays_and_what_is_needed_comes_in_once() {
    let base = json!({
        "acls": [{ "action": "accept", "src": ["*"], "dst": ["*:*"] }],
        "tagOwners": { "tag:fabric": ["group:net"] },
        "autoApprovers": { "routes": { "192.0.2.0/24": ["tag:other"] } },
    });
    let needs = [need(&["192.0.2.0/24", "198.51.100.0/24"])];
    let merged = merge(&base, &needs).unwrap();
    assert_eq!(
        merged,
        json!({
            "acls": [{ "action": "accept", "src": ["*"], "dst": ["*:*"] }],
            "tagOwners": { "tag:fabric": ["group:net"] },
            "autoApprovers": { "routes": {
                "192.0.2.0/24": ["tag:other", "tag:fabric"],
                "198.51.100.0/24": ["tag:fabric"],
            } },
        })
    );
    assert_eq!(merge(&merged, &needs).unwrap(), merged);
    assert_eq!(missing(&merged, &needs), None);
}

#[test]
fn a_base_of_another_shape_is_refused_rather_than_replaced() {
    let base = json!({ "autoApprovers": { "routes": [] } });
    assert_eq!(
        merge(&base, &[need(&["192.0.2.0/24"])]),
        Err(InvalidPolicy::Part("autoApprovers.routes"))
    );
}

#[test]
fn a_wider_approver_is_enough_and_missing_lines_are_as_a_person_would_write_them() {
    let policy = json!({ "autoApprovers": { "routes": { "198.51.0.0/16": ["tag:fabric"] } } });
    assert_eq!(
        missing(&policy, &[need(&["192.0.2.0/24", "198.51.100.0/24"])]),
        Some(
            r#"{"autoApprovers":{"routes":{"192.0.2.0/24":["tag:fabric"]}},"tagOwners":{"tag:fabric":[]}}"#
                .to_owned()
        )
    );
}

#[test]
fn many_missing_lines_are_one_json_object_that_is_cut_between_prefixes() {
    let routes: Vec<String> = (0..4000)
        .map(|number| format!("10.0.{}.{}/32", number / 256, number % 256))
        .collect();
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    let said = missing(
        &json!({ "tagOwners": { "tag:fabric": [] } }),
        &[need(&routes)],
    )
    .unwrap();
    let (lines, rest) = said.rsplit_once("}, and ").unwrap();
    let lines = parse(&format!("{lines}}}")).unwrap();
    let shown = lines.pointer("/autoApprovers/routes").unwrap();
    assert_eq!(shown.as_object().unwrap().len(), SHOWN);
    assert!(rest.starts_with("3968 more prefixes"), "{rest}");
}

#[test]
fn a_text_as_deep_as_nobody_writes_it_is_refused_before_it_is_parsed() {
    let deep = |depth: usize| format!("{{ \"acls\": {}{} }}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&deep(DEPTH - 1)).is_ok());
    assert_eq!(parse(&deep(DEPTH)), Err(InvalidPolicy::Deep));
    assert_eq!(parse(&"[".repeat(1 << 20)), Err(InvalidPolicy::Deep));
    let not_deep = format!(
        "{{ \"acls\": \"{}\" /* {} */ }}",
        "[".repeat(99),
        "[".repeat(99)
    );
    assert!(parse(&not_deep).is_ok());
}
