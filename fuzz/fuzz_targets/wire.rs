//! A message from the network.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| tsunaro_dns::fuzzing::wire(octets));
