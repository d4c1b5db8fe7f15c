//! `policy schema`: for editors, as `#:schema tabwarden.schema.json` in the first line of a policy.

pub const SCHEMA: &str = include_str!("schema.json");
