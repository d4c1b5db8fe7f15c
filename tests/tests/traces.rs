//! Every file in `traces/` is one claim about the engine.

use std::path::Path;

use tabwarden_tests::trace::Runner;

#[test]
fn traces_hold() {
    let update = std::env::var("TRACES").is_ok_and(|value| value == "update");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder of traces")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "trace"))
        .collect();
    files.sort();
    assert!(files.len() >= 10, "only {} traces were found", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let expected = std::fs::read_to_string(&path).expect("a trace");
        let actual = Runner::run(&expected);
        if actual == expected {
            continue;
        }
        if update {
            std::fs::write(&path, actual).expect("a trace");
            continue;
        }
        let difference = expected
            .lines()
            .zip(actual.lines())
            .enumerate()
            .find(|(_, (expected, actual))| expected != actual)
            .map(|(n, (expected, actual))| format!("line {}:\n  expected {expected}\n  but got  {actual}", n + 1))
            .unwrap_or_else(|| format!("it ends differently; whole output:\n{actual}"));
        wrong.push(format!("{}: {difference}", path.display()));
    }
    assert!(wrong.is_empty(), "{}\n(TRACES=update writes the outputs anew)", wrong.join("\n\n"));
}
