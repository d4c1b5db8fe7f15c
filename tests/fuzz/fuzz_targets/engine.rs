#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabwarden_tests::fuzz::engine(bytes));
