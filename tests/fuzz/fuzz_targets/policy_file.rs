#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| tabwarden_tests::fuzz::policy(text));
