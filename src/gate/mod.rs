//! Shim until the contract gate is merged.
mod event;
pub use event::*;
#[derive(Debug, Clone, Default)]
pub struct Settings;
pub struct Gate;
pub struct Decision {
    pub route: Route,
    pub hard_blockers: Vec<String>,
    pub recovery_suggestion: String,
}
impl Gate {
    pub fn new(_: Settings) -> Self {
        Self
    }
    pub fn decide(&self, event: &Event, _: jiff::Timestamp) -> Decision {
        let route = match (event.category, event.state) {
            (Category::PublicRead, _) => Route::Accept,
            (Category::PrivateRead, state) if state.private_read_allowed() => Route::Accept,
            (Category::Write, AuthState::Confirmed) => Route::Accept,
            (Category::Write, _) => Route::Ask,
            _ => Route::Defer,
        };
        Decision {
            route: route.stricter(event.recommended),
            hard_blockers: Vec::new(),
            recovery_suggestion: String::new(),
        }
    }
}
impl Decision {
    pub fn executes(&self) -> bool {
        self.route == Route::Accept && self.hard_blockers.is_empty()
    }
}
pub fn audit_key(key: &str) -> String {
    key.to_owned()
}
