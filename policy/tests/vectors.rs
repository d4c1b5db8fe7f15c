//! `url-vectors.tsv`, through the verdict and through its explanation.

use std::collections::BTreeSet;
use std::sync::Arc;

use policy::{Policies, Policy, Question, Verb};

#[test]
fn every_spelling_has_the_verdict_of_its_line() {
    let policy = Policy::parse(include_str!("url-vectors.toml"), "url-vectors.toml").expect("the policy");
    let policies = Policies::from(Arc::new(policy));
    let mut seen = BTreeSet::new();
    let mut failures = Vec::new();
    let lines = include_str!("url-vectors.tsv").lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    for (number, line) in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let [verb, url, verdict, rule, _note] = fields[..] else { panic!("line {}: {line}", number + 1) };
        let verb = Verb::parse(verb).expect("a verb");
        let url: String = serde_json::from_str(&format!("\"{url}\"")).expect("a URL as in JSON");
        assert!(seen.insert((verb.as_str(), url.clone())), "line {}: twice", number + 1);
        let question = Question::new(verb, &url).created_by(Some("task")).with_method(verb.usual_method());
        let decision = policies.judge(&question);
        let explanation = policies.explain(&question);
        assert_eq!(explanation.decision, decision, "{url}");
        let deciding = explanation.layers[0].candidates.iter().find(|candidate| candidate.decides);
        assert_eq!(
            deciding.map_or("default", |candidate| &candidate.rule.id),
            decision.rule.id,
            "{url}: {explanation}"
        );
        if (decision.verdict.as_str(), decision.rule.id.as_str()) != (verdict, rule) {
            failures.push(format!(
                "line {}: {verb} {url:?}: {} by {}, and the line says {verdict} by {rule}",
                number + 1,
                decision.verdict.as_str(),
                decision.rule.id
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(seen.len() >= 250, "{}", seen.len());
}
