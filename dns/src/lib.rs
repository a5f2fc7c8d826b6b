//! Answers, caches, forwards and serves DNS.

pub mod forward;
