//! What a set of policies says of one question, as text for a person and as JSON: the same for `tabwarden policy explain` and
//! for the API, and by the functions that judge on the live path.

use policy::{Decision, Explanation, LayerExplanation, Policies, Question, RuleRef, Verb};
use serde_json::{Value, json};

/// A question as it was typed.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub verb: String,
    pub url: String,
    /// The document that asks for it, or that made it; `None`: the client itself.
    pub from: Option<String>,
    /// Of HTTP; `None`: what a request of that verb mostly has.
    pub method: Option<String>,
}

#[derive(Debug)]
pub struct Explained {
    /// The verdict is the first line.
    pub text: String,
    pub json: Value,
}

/// `Err`: what is wrong with the question, in a sentence.
pub fn explain(policies: &Policies, asked: &Asked) -> Result<Explained, String> {
    let Some(verb) = Verb::parse(&asked.verb) else {
        let known: Vec<&str> = Verb::ALL.iter().map(|verb| verb.as_str()).collect();
        return Err(format!("{:?} is no verb; the verbs are {}.", asked.verb, known.join(", ")));
    };
    let method = asked.method.as_deref().or(verb.usual_method());
    if method.is_some_and(|method| method.is_empty() || method.bytes().any(|byte| byte.is_ascii_lowercase())) {
        return Err("A method is in upper case, for example POST.".to_owned());
    }
    let question = Question::new(verb, &asked.url)
        .created_by(Some(asked.from.as_deref().unwrap_or("task")))
        .on_behalf_of(asked.from.as_deref())
        .with_method(method);
    let explanation = policies.explain(&question);
    Ok(Explained { text: explanation.to_string(), json: as_json(&explanation, verb, policies.hash()) })
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
