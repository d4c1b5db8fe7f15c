//! The fuzz targets, for a moment and from a seed: what a fuzzer would find at once is found by `cargo test`.
//!
//! `FUZZ_SEED=n` begins elsewhere and `FUZZ_ROUNDS=n` goes on longer; a failure names the seed of its round.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tabwarden_tests::fuzz;
use tabwarden_tests::sim::Rng;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Rounds of `body`, each with a generator of its own.
fn rounds(default: u64, body: impl Fn(&mut Rng)) {
    let first = from_environment("FUZZ_SEED", 0);
    for seed in first..first + from_environment("FUZZ_ROUNDS", default) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&mut Rng::new(seed)))) {
            eprintln!("again: FUZZ_SEED={seed} FUZZ_ROUNDS=1 cargo test -p tabwarden-tests --test fuzz_smoke");
            std::panic::resume_unwind(panic);
        }
    }
}

/// What formats are made of, for texts that are nearly right.
const PIECES: [&str; 16] =
    ["{", "}", "[", "]", "\"", ":", ",", "\\u0069", "\\", "null", "-1", "1e999", "\"id\"", "\u{0}", "é", "[[rule]]\n"];

/// A text of the corpus with a few slips: bytes lost, pieces put in, parts doubled.
fn spoilt(rng: &mut Rng, corpus: &[&str]) -> String {
    let mut text: Vec<char> = rng.pick(corpus).copied().unwrap_or_default().chars().collect();
    for _ in 0..rng.below(4) {
        let at = rng.below(text.len() + 1);
        match rng.below(4) {
            0 => drop(text.splice(at..(at + rng.below(5)).min(text.len()), [])),
            1 => drop(text.splice(at..at, rng.pick(&PIECES).copied().unwrap_or_default().chars())),
            2 => {
                let part: Vec<char> = text[at..(at + rng.below(40)).min(text.len())].to_vec();
                let to = rng.below(text.len() + 1);
                drop(text.splice(to..to, part));
            }
            _ => text.truncate(at),
        }
    }
    text.into_iter().collect()
}

#[test]
fn commands() {
    const CORPUS: [&str; 4] = [
        r#"{"id":7,"sessionId":"S1","method":"Page.navigate","params":{"url":"https://a.test/\u0041","x":[1,{"y":null}]}}"#,
        r#"{"id":11.0,"method":"Target.createTarget","params":{"targetId":"A","targetId":"B"}}"#,
        r#" {"\u0069d":-3,"method":"X.y","params":null} "#,
        r#"{"id":1,"method":"Runtime.evaluate","params":{"expression":"\"}{\\"},"jsonrpc":"2.0"}"#,
    ];
    rounds(10_000, |rng| fuzz::command(&spoilt(rng, &CORPUS)));
}

#[test]
fn browser_messages() {
    const CORPUS: [&str; 4] = [
        r#"{"id":42,"sessionId":"R9","result":{"frameId":"F","list":[{},[]]}}"#,
        r#"{"id":1,"error":{"code":-32000,"message":"no"}}"#,
        r#"{"method":"Page.frameNavigated","params":{"frame":{"id":"F","url":"é\u0000"}},"sessionId":"R9"}"#,
        r#"{"method":"Target.targetDestroyed"}"#,
    ];
    rounds(10_000, |rng| fuzz::browser_message(&spoilt(rng, &CORPUS)));
}

#[test]
fn policies() {
    const CORPUS: [&str; 2] = [
        include_str!("../../policies/default.toml"),
        "policy = 1\nname = \"x\"\ndefault = \"deny\"\n[sets]\na = [\"b.test\"]\n[[rule]]\nid = \"r\"\neffect = \"allow\"\nverbs = [\"view\"]\nto = { host = \"*.b.test\" }\npaths = [\"/a/**\"]\nports = [80, 0x50]\n",
    ];
    rounds(400, |rng| fuzz::policy(&spoilt(rng, &CORPUS)));
}

#[test]
fn whole_engines() {
    rounds(120, |rng| {
        let script: Vec<u8> = (0..200 + rng.below(1200)).map(|_| rng.below(256) as u8).collect();
        fuzz::engine(&script);
    });
}
