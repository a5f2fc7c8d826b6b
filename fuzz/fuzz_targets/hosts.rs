//! A hosts file.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| tsunaro_model::fuzzing::hosts(octets));
