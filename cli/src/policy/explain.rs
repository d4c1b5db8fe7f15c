//! `policy explain`.

use ::policy::{Date, Decision, Explanation, LayerExplanation, Policies, Question, RuleRef, Verb};
use serde_json::{Value, json};

use super::args::ExplainArgs;
use super::{Report, load};
use crate::exit::Failure;

pub fn explain(args: &ExplainArgs, today: Date) -> Result<Report, Failure> {
    let Some(verb) = Verb::parse(&args.verb) else {
        let known: Vec<&str> = Verb::ALL.iter().map(|verb| verb.as_str()).collect();
        return Err(Failure::usage(format!("{:?} is no verb; the verbs are {}.", args.verb, known.join(", "))));
    };
    let method = args.method.as_deref().or(verb.usual_method());
    if method.is_some_and(|method| method.is_empty() || method.bytes().any(|byte| byte.is_ascii_lowercase())) {
        return Err(Failure::usage("--method is in upper case, for example POST."));
    }
    let policies = match args.policy.is_empty() {
        true => Policies::built_in(),
        false => load::together(&args.policy, today)?,
    };
    let question = Question::new(verb, &args.url)
        .created_by(Some(args.from.as_deref().unwrap_or("task")))
        .on_behalf_of(args.from.as_deref())
        .with_method(method);
    let explanation = policies.explain(&question);
    match args.json {
        true => Ok(Report::of(as_json(&explanation, verb, policies.hash()).to_string())),
        false => Ok(Report::of(explanation.to_string())),
    }
}

fn as_json(explanation: &Explanation, verb: Verb, hash: &str) -> Value {
    let mut value = decision(&explanation.decision);
    value["verb"] = verb.as_str().into();
    value["url"] = explanation.url.as_deref().into();
    value["judged_as"] = explanation.judged_as.as_deref().into();
    value["would"] = explanation.decision.would.as_deref().map(decision).into();
    value["layers"] = explanation.layers.iter().map(layer).collect();
    value["policy_hash"] = hash.into();
    value
}

fn decision(decision: &Decision) -> Value {
    json!({
        "verdict": decision.verdict.as_str(),
        "rule": rule(&decision.rule),
        "reason": decision.reason,
    })
}

fn rule(rule: &RuleRef) -> Value {
    json!({"id": rule.id, "file": rule.file, "line": rule.line})
}

fn layer(layer: &LayerExplanation) -> Value {
    let candidates = layer.candidates.iter().map(|candidate| {
        json!({
            "rule": rule(&candidate.rule),
            "effect": candidate.effect.as_str(),
            "matches": candidate.matches,
            "decides": candidate.decides,
            "why": candidate.why,
        })
    });
    json!({
        "layer": layer.kind.to_string(),
        "files": layer.files,
        "decision": layer.decision.as_ref().map(decision),
        "candidates": candidates.collect::<Vec<_>>(),
    })
}
