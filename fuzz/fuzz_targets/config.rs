//! A config file.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| tsunaro_model::fuzzing::config(octets));
