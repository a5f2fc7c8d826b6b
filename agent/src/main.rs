//! The process in the gateway's Pod: resolver, routes, readiness.

fn main() {}
