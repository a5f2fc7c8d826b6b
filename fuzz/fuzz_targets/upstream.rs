//! An upstream's reply.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| tsunaro_dns::fuzzing::upstream(octets));
