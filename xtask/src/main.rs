//! The project's own commands: test, architecture, peers.

fn main() {}
