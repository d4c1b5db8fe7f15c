//! `policy new`: a file to begin with.

use super::Report;
use crate::exit::Failure;

const STARTER: &str = include_str!("starter.toml");

pub fn starter(name: &str) -> Result<Report, Failure> {
    let sound = !name.is_empty() && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    match sound {
        true => Ok(Report::of(STARTER.replace("NAME", name))),
        false => {
            Err(Failure::usage(format!("{name:?} is no name for a policy; use lower-case letters, digits and dashes.")))
        }
    }
}
