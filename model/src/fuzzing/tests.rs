use std::fs;
use std::path::Path;

/// Runs a fuzz target over its corpus in the repository.
fn replay(target: &str, run: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let mut files = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        // The test's output names the file when a target panics.
        println!("{}", path.display());
        run(&fs::read(&path).unwrap());
        files += 1;
    }
    assert!(files >= 20, "{} holds {files} files", directory.display());
}

// Holds rules 31 and 33.
#[test]
fn every_hosts_file_of_the_corpus_keeps_the_promises() {
    replay("hosts", super::hosts);
}

#[test]
fn every_config_of_the_corpus_keeps_the_promises() {
    replay("config", super::config);
}
