//! Objects of the API server become the same domain types as files, field by field.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test"
)]

#[path = "support/table.rs"]
#[allow(dead_code, reason = "the other test of the table uses the rest")]
mod table;

use table::Table;
use tsunaro_controller::crd::{self, TailnetGateway};
use tsunaro_model::gateway::{Object, parse};

#[test]
fn an_object_of_the_api_server_and_a_file_mean_the_same() {
    let table = Table::read();
    let mut count = 0;
    for case in table
        .accepted
        .iter()
        .filter(|case| case.kind == "TailnetGateway")
    {
        let text = table.object(case).to_string();
        let object: TailnetGateway = serde_json::from_str(&text).unwrap();
        let (gateway, _) =
            crd::gateway(&object).unwrap_or_else(|invalid| panic!("{}: {invalid}", case.name));
        assert_eq!(
            parse(&text).objects[0].object,
            Object::Gateway(Box::new(gateway)),
            "{}",
            case.name
        );
        count += 1;
    }
    assert!(count >= 8);
}

#[test]
fn an_invalid_object_is_told_in_one_line_for_a_condition() {
    let table = Table::read();
    let case = table
        .refused
        .iter()
        .find(|case| case.name == "aliases in a circle")
        .unwrap();
    let object: TailnetGateway = serde_json::from_value(table.object(case)).unwrap();
    let message = crd::gateway(&object).unwrap_err().to_string();
    assert!(
        message.starts_with("spec.dns.staticRecords[0].target: these aliases form a circle"),
        "{message}"
    );
    assert!(!message.contains('\n'));
}

#[test]
fn the_warning_about_coredns_is_handed_on() {
    let table = Table::read();
    let object: TailnetGateway = serde_json::from_value(table.object(&table.accepted[0])).unwrap();
    let (gateway, warnings) = crd::gateway(&object).unwrap();
    assert_eq!(gateway.dns.image, None);
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].field, "spec.dns.image");
}
