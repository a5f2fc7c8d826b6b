use tsunaro_model::zone::HostsState;

use super::*;
use crate::files::read_capped;

const CONFIG: &str = "apiVersion: agent.tsunaro.io/v1alpha1\nkind: GatewayConfig\nhosts: hosts\n\
                      dns:\n  zone: example.internal\n  staticRecords: [{ name: s, address: 192.0.2.1 }]\n";

fn dns() -> Arc<DnsConfig> {
    let parsed = tsunaro_model::config::parse(CONFIG);
    Arc::new(parsed.config.unwrap().dns)
}

fn seen(content: &str) -> HostsFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    HostsFile::Seen(
        "hosts".to_owned(),
        Ok(Arc::new(read_capped(file.path(), 1024).unwrap())),
    )
}

fn build(builder: &mut Builder, hosts: HostsFile, now: u32) -> Built {
    builder.build(&BuildInput { dns: dns(), hosts }, now)
}

// Holds rule 42.
#[test]
fn the_serial_rises_with_the_content_and_stays_with_it() {
    let mut builder = Builder::default();
    let first = build(&mut builder, seen("192.0.2.9 a.example.internal"), 100);
    let same = build(&mut builder, seen("192.0.2.9 a.example.internal"), 200);
    let other = build(&mut builder, seen("192.0.2.8 a.example.internal"), 300);
    let early = build(&mut builder, seen("192.0.2.7 a.example.internal"), 250);
    let serials = [&first, &same, &other, &early].map(|built| built.snapshot.serial());
    assert_eq!(serials, [100, 100, 300, 301]);
    let generations = [&first, &same, &other, &early].map(|built| built.snapshot.generation());
    assert_eq!(generations, [1, 1, 2, 3]);
    assert_eq!(early.hosts.generation, 3);
}

// Holds rule 39.
#[test]
fn content_that_cannot_be_used_keeps_the_last_good_names_and_says_why() {
    let mut builder = Builder::default();
    let good = build(&mut builder, seen("192.0.2.9 a.example.internal"), 1);
    assert_eq!((good.census.dynamic_names, good.hosts.error), (1, None));
    for bad in [
        seen("\0\0binary"),
        seen("no address here"),
        HostsFile::Seen("hosts".to_owned(), Err(ReadFault::Missing)),
        HostsFile::Seen("hosts".to_owned(), Err(ReadFault::TooLarge { max: 1 })),
    ] {
        let built = build(&mut builder, bad, 2);
        assert_eq!(built.census.dynamic_names, 1);
        assert_eq!(built.snapshot.serial(), 1);
        assert_eq!(built.snapshot.hosts(), HostsState::Read);
        assert!(
            built
                .hosts
                .error
                .is_some_and(|error| error.starts_with("hosts: "))
        );
    }
    let healed = build(&mut builder, seen("192.0.2.9 a.example.internal"), 3);
    assert_eq!((healed.hosts.error, healed.snapshot.serial()), (None, 1));
}

// Holds rules 39 and 40.
#[test]
fn a_valid_file_without_names_empties_the_zone_but_a_missing_first_file_is_unread() {
    let mut builder = Builder::default();
    let missing = HostsFile::Seen("hosts".to_owned(), Err(ReadFault::Missing));
    let unread = build(&mut builder, missing, 1);
    assert_eq!(unread.snapshot.hosts(), HostsState::Unread);
    let named = build(&mut builder, seen("192.0.2.9 a.example.internal"), 2);
    assert_eq!(
        (named.snapshot.hosts(), named.census.dynamic_names),
        (HostsState::Read, 1)
    );
    let empty = build(&mut builder, seen("# nothing yet\n"), 3);
    assert_eq!(
        (empty.snapshot.hosts(), empty.census.dynamic_names),
        (HostsState::Read, 0)
    );
    let none = build(&mut builder, HostsFile::NotConfigured, 4);
    assert_eq!(none.snapshot.hosts(), HostsState::NotConfigured);
}

// Holds rule 39.
#[test]
fn another_path_without_a_file_keeps_the_names_of_the_one_before_and_says_so() {
    let mut builder = Builder::default();
    build(&mut builder, seen("192.0.2.9 a.example.internal"), 1);
    let missing = HostsFile::Seen("elsewhere".to_owned(), Err(ReadFault::Missing));
    let built = build(&mut builder, missing, 2);
    assert_eq!(built.census.dynamic_names, 1);
    assert_eq!(built.snapshot.hosts(), HostsState::Read);
    assert!(
        built
            .hosts
            .error
            .unwrap()
            .starts_with("elsewhere: it is not there")
    );
    let mended = build(&mut builder, seen("192.0.2.8 b.example.internal"), 3);
    assert_eq!(mended.hosts.error, None);
}
