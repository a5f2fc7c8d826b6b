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

// Holds rule 78.
#[test]
fn every_message_of_the_corpus_gets_a_valid_reply_or_silence() {
    replay("wire", super::wire);
}

// Holds rules 54 and 78.
#[test]
fn every_upstream_reply_of_the_corpus_becomes_a_valid_reply() {
    replay("upstream", super::upstream);
}
