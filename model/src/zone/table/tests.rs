use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn wire(text: &str) -> Vec<u8> {
    text.split('.')
        .filter(|label| !label.is_empty())
        .flat_map(|label| [&[u8::try_from(label.len()).unwrap()], label.as_bytes()].concat())
        .collect()
}

fn built(entries: &[(&str, &str)]) -> Table {
    let mut builder = TableBuilder::default();
    for (name, address) in entries {
        assert_eq!(
            builder.add_dynamic(&wire(name), address.parse().unwrap()),
            Added::Kept
        );
    }
    builder.finish()
}

fn addresses(table: &Table, name: &str) -> Option<Vec<IpAddr>> {
    match table.get(&wire(name))? {
        Node::Dynamic(set) | Node::Static(set) => {
            let v4 = set.v4.iter().map(|octets| IpAddr::from(*octets));
            let v6 = set.v6.iter().map(|octets| IpAddr::from(*octets));
            Some(v4.chain(v6).collect())
        }
        Node::EmptyNonTerminal => Some(vec![]),
        Node::Alias(_) => None,
    }
}

#[test]
fn scattered_addresses_of_a_name_stay_in_file_order_without_repetition() {
    let table = built(&[
        ("web", "192.0.2.3"),
        ("db", "2001:db8::1"),
        ("web", "2001:db8::2"),
        ("db", "192.0.2.9"),
        ("web", "192.0.2.1"),
        ("web", "192.0.2.3"),
        ("web", "2001:db8::2"),
    ]);
    let show = |name| {
        let all: Vec<String> = addresses(&table, name)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        all.join(" ")
    };
    assert_eq!(show("web"), "192.0.2.3 192.0.2.1 2001:db8::2");
    assert_eq!(show("db"), "192.0.2.9 2001:db8::1");
}

#[test]
fn an_empty_non_terminal_that_gets_an_address_keeps_what_is_above_it() {
    let table = built(&[("a.b.c", "192.0.2.1"), ("b.c", "192.0.2.2")]);
    assert_eq!(
        addresses(&table, "b.c"),
        Some(vec!["192.0.2.2".parse().unwrap()])
    );
    assert_eq!(table.get(&wire("c")), Some(Node::EmptyNonTerminal));
    assert_eq!(table.get(&wire("a")), None);
    // Labels, not octets, end a name.
    assert_eq!(table.get(&wire("b")), None);
}

#[test]
fn a_name_takes_1024_addresses_of_a_family_and_no_more() {
    let mut builder = TableBuilder::default();
    let name = wire("many");
    for number in 0..1024u32 {
        let v4 = IpAddr::from((0xc633_6400 + number).to_be_bytes());
        assert_eq!(builder.add_dynamic(&name, v4), Added::Kept);
    }
    let one_more = "192.0.2.1".parse().unwrap();
    assert_eq!(builder.add_dynamic(&name, one_more), Added::Full);
    let other_family = "2001:db8::1".parse().unwrap();
    assert_eq!(builder.add_dynamic(&name, other_family), Added::Kept);
    assert_eq!(addresses(&builder.finish(), "many").unwrap().len(), 1025);
}

#[test]
fn a_static_record_hides_the_hosts_file_and_a_second_one_replaces_the_first() {
    let mut builder = TableBuilder::default();
    builder.alias(&wire("x"), 7);
    builder.static_addresses(
        &wire("y"),
        &["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
    );
    builder.static_addresses(&wire("y"), &["192.0.2.2".parse().unwrap()]);
    for name in ["x", "y"] {
        let address = "192.0.2.9".parse().unwrap();
        assert_eq!(builder.add_dynamic(&wire(name), address), Added::Shadowed);
    }
    let table = builder.finish();
    assert_eq!(table.get(&wire("x")), Some(Node::Alias(7)));
    assert_eq!(
        addresses(&table, "y"),
        Some(vec!["192.0.2.2".parse().unwrap()])
    );
}

#[test]
fn names_with_a_hundred_labels_cost_five_octets_for_each_name_above_them() {
    let mut builder = TableBuilder::default();
    for number in 0..1000 {
        let name = wire(&format!("{}n{number}", "a.".repeat(100)));
        builder.add_dynamic(&name, "192.0.2.1".parse().unwrap());
    }
    let table = builder.finish();
    assert_eq!(table.slots.len(), 101_000);
    assert!(table.names.len() < 1000 * 220, "{}", table.names.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_table_knows_what_a_map_knows(
        entries in prop::collection::vec(
            (
                prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "bc", "abc"]), 0..4),
                any::<u8>(),
                any::<bool>(),
            ),
            0..40,
        ),
        questions in prop::collection::vec(
            prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "bc", "abc", "d"]), 0..5),
            40,
        ),
    ) {
        let mut map: BTreeMap<Vec<u8>, Vec<IpAddr>> = BTreeMap::new();
        let mut builder = TableBuilder::default();
        for (labels, last, v6) in entries {
            let name = wire(&labels.join("."));
            let address = if v6 {
                IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
            } else {
                IpAddr::from([192, 0, 2, last])
            };
            builder.add_dynamic(&name, address);
            let set = map.entry(name.clone()).or_default();
            if !set.contains(&address) {
                set.push(address);
            }
            let mut above = parent(&name);
            while let Some(name) = above.filter(|name| !name.is_empty()) {
                map.entry(name.to_vec()).or_default();
                above = parent(name);
            }
        }
        prop_assert_eq!(builder.dynamic_names(), map.values().filter(|set| !set.is_empty()).count());
        let table = builder.finish();
        for labels in questions {
            let text = labels.join(".");
            let expected = map.get(&wire(&text)).map(|set| {
                let mut set = set.clone();
                set.sort_by_key(|address| address.is_ipv6());
                set
            });
            prop_assert_eq!(addresses(&table, &text), expected, "{}", text);
            prop_assert_eq!(table.contains(&wire(&text)), map.contains_key(&wire(&text)));
        }
    }
}
