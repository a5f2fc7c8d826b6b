//! Answers, caches, forwards and serves DNS.
