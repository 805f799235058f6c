//! Tools that are data (ADR-003): JSON that an admin writes, checked when it is saved, run in a call
//! without a deployment. `docs/declarative-tools.md` is the language for those who write it.
//!
//! [`Definition::read`] finds everything that is wrong; what it gives runs without being parsed
//! again. A run is sequential and has no loops. It reads and writes a working copy of the call's
//! memory and reaches outside through [`Fetch`](crate::tool::Fetch) alone.

mod address;
mod condition;
mod definition;
mod fault;
mod read;
mod request;
mod run;
mod scene;
mod secret;
mod spec;
mod template;
mod tool;
mod transform;
mod validate;
mod write;

/// Any JSON as a definition: what is accepted is written and read again as the same, and complaints are few.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let surroundings = std::sync::Arc::<Surroundings>::default();
    match Definition::read(&value, &surroundings) {
        Ok(definition) => {
            let written = definition.to_json();
            match Definition::read(&written, &surroundings) {
                Ok(again) => assert_eq!(again, definition, "written as {written}"),
                Err(problems) => panic!("{written} is refused: {problems:?}"),
            }
            let _ = definition.spec();
        }
        Err(problems) => assert!((1..=100).contains(&problems.len()), "{} problems", problems.len()),
    }
}

#[cfg(test)]
mod tests;

pub use definition::{
    ACTIONS_MAX, BRANCH_DEPTH_MAX, DEFINITION_BYTES_MAX, Definition, DefinitionProblem, Endpoint, Level, Method,
    Surroundings, VOICE_TIMEOUT_CAP,
};
pub use run::{CallView, FAILURE, Note, Report, RunInput, SUCCESS, Services, TraceStep};
pub use tool::{DeclarativeTool, Listener};
