//! `Tracing` and the streams in which finished traces are read. All other streams are Chromium's, bound to their session.

use serde_json::{Value, json};

use super::{Ask, Engine};
use crate::engine::calls::Learn;
use crate::engine::from_client::{Addressee, Forward, Judged};
use crate::engine::refusal::Refusal;
use crate::engine::trace_filter::{FRAMES, SCREENSHOTS};
use crate::engine::traces::without_pictures;

impl Engine {
    pub(super) fn start_tracing(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        self.permit(ask.to, ask.row, ask.surface, &Judged::default(), ())?;
        for (key, only) in [("streamFormat", "json"), ("streamCompression", "none"), ("tracingBackend", "auto")] {
            if ask.text(key).is_some_and(|wanted| wanted != only) {
                return Err(Refusal::ours(format!(
                    "Tracing.start refused: a trace is cut to the task, and read as JSON for that; leave {key} out"
                )));
            }
        }
        if !ask.params["perfettoConfig"].is_null() {
            return Err(Refusal::ours(
                "Tracing.start refused: a perfettoConfig can record more than a task; name categories in traceConfig instead",
            ));
        }
        let as_stream = ask.text("transferMode") == Some("ReturnAsStream");
        let params = json!({"transferMode": "ReportEvents", "traceConfig": trace_config(ask.params)?});
        let session = match ask.addressee {
            Addressee::Session(session) => Some(session),
            Addressee::Scope(_) => None,
        };
        self.start_trace(ask.to, session, &params, as_stream)
    }

    pub(super) fn end_tracing(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        self.permit(ask.to, ask.row, ask.surface, &Judged::default(), ())?;
        self.end_trace(ask.to)
    }

    pub(super) fn read_stream(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let handle = ask.required("handle")?.to_owned();
        match self.read_trace(ask.to, &handle) {
            Some(piece) => {
                self.result(ask.to, &piece.to_string());
                Ok(())
            }
            None => self.forward_stream(ask),
        }
    }

    pub(super) fn close_stream(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let handle = ask.required("handle")?.to_owned();
        match self.close_trace(ask.to, &handle) {
            true => self.done(ask.to),
            false => self.forward_stream(ask),
        }
    }

    fn forward_stream(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let Addressee::Session(session) = ask.addressee else {
            // Chromium's words. The root's own streams are nobody's.
            return Err(Refusal { code: -32602, message: "Invalid stream handle".to_owned() });
        };
        let params = ask.params.to_string();
        let command = Forward { session: Some(session), method: ask.row.method, params: &params };
        let permitted = self.permit_forward(ask.to, ask.row, ask.surface, &Judged::default(), command)?;
        self.forward(ask.to, permitted, Learn::Nothing);
        Ok(())
    }
}

/// The categories that were asked for, in either of the two ways; without pictures, and with what tells frames.
fn trace_config(params: &Value) -> Result<Value, Refusal> {
    let wrong = || Refusal::invalid_params("categories must be strings");
    let mut config = json!({"recordMode": "recordUntilFull"});
    let (mut included, mut excluded) = (Vec::new(), Vec::new());
    if params["traceConfig"].is_object() {
        for (key, list) in [("includedCategories", &mut included), ("excludedCategories", &mut excluded)] {
            for category in params["traceConfig"][key].as_array().into_iter().flatten() {
                list.push(category.as_str().ok_or_else(wrong)?.to_owned());
            }
        }
        if let Some(mode) = params["traceConfig"]["recordMode"].as_str() {
            config["recordMode"] = json!(mode);
        }
    } else if let Some(categories) = params["categories"].as_str() {
        for category in categories.split(',').map(str::trim).filter(|category| !category.is_empty()) {
            match category.strip_prefix('-') {
                Some(category) => excluded.push(category.to_owned()),
                None => included.push(category.to_owned()),
            }
        }
    }
    without_pictures(&mut included);
    included.push(FRAMES.to_owned());
    excluded.push(SCREENSHOTS.to_owned());
    config["includedCategories"] = json!(included);
    config["excludedCategories"] = json!(excluded);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_way_of_naming_categories_records_pictures() {
        for params in [
            json!({"categories": "-*,devtools.timeline,disabled-by-default-devtools.screenshot"}),
            json!({"categories": "disabled-by-default-*,devtools.timeline"}),
            json!({"traceConfig": {"includedCategories": ["devtools.timeline", "disabled-by-default-devtools.s*", SCREENSHOTS]}}),
        ] {
            let config = trace_config(&params).unwrap();
            assert_eq!(config["includedCategories"], json!(["devtools.timeline", FRAMES]), "{params}");
            assert!(config["excludedCategories"].as_array().unwrap().contains(&json!(SCREENSHOTS)), "{params}");
        }
        assert!(trace_config(&json!({"traceConfig": {"includedCategories": [1]}})).is_err());
    }
}
