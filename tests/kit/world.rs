//! The two worlds of a scene: an emulated exchange in virtual time, and a real Asterisk with real phones in real time.
//!
//! A scene is a plain `pub async fn` that asks [`super::asterisk::Asterisk`], [`super::phone::Phone`] and
//! [`super::offhook::Offhook`] for what it needs; they look here which world it plays in. [`crate::scenes`] makes a test of it for
//! each world:
//!
//! ```ignore
//! async fn a_key_that_is_pressed_is_counted() {
//!     let (asterisk, offhook) = pbx("- tone: { hertz: 440, for: 60s }", "").await;
//!     let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
//!     phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
//!     phone.dtmf('5').await;
//!     offhook.wait_active_where(|call| call["counts"]["keys"] == 1, SOON).await;
//!     phone.hang_up().await;
//!     assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
//!     asterisk.wait_empty(SOON).await;
//! }
//!
//! crate::scenes! {
//!     both: a_key_that_is_pressed_is_counted;
//! }
//! ```
//!
//! This is `tests/calls/first_scene.rs`; a new file of scenes is a `mod` of `tests/calls/mod.rs`. One scene runs by
//! `cargo test --test whole_calls first_scene::emulated`, and on the real Asterisk by `make test REAL=all ONLY=first_scene`.
//!
//! A scene takes the time from tokio's `Instant`, waits for conditions, and has no thread and no program beside it that the clock does
//! not know of: see [`super::virtual_time`].

use super::virtual_time;
use offhook::telemetry::LogBook;
use std::{cell::RefCell, future::Future, process::Output, time::Duration};
use tokio::{runtime::Builder, time::timeout};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    Real,
    Emulated,
}

thread_local! {
    /// The log of the engines of this thread's scene, where it is an emulated one: all of it runs on one thread.
    static EMULATED: RefCell<Option<LogBook>> = const { RefCell::new(None) };
}

/// The world of the scene that runs on this thread; a test that is not a scene is a real one.
pub fn current() -> World {
    EMULATED.with_borrow(|emulated| if emulated.is_some() { World::Emulated } else { World::Real })
}

/// The log of an emulated scene's engines.
pub fn log_book() -> LogBook {
    EMULATED.with_borrow(|emulated| emulated.clone()).expect("an emulated scene")
}

/// Makes this thread a real one again, also where a scene panics.
struct Leaves;

impl Drop for Leaves {
    fn drop(&mut self) {
        EMULATED.set(None);
    }
}

/// Plays a scene on an emulated exchange, on this thread and a clock that moves only while nobody has anything to do.
pub fn emulated<F: Future<Output = ()>>(scene: impl FnOnce() -> F) {
    let book = LogBook::new();
    EMULATED.set(Some(book.clone()));
    let _leaves = Leaves;
    let _log = tracing::dispatcher::set_default(book.dispatch());
    virtual_time::run(scene);
}

/// Longest time of a scene on a real Asterisk: 200 s were seen beside a load.
const REAL_SCENE_MAX: Duration = Duration::from_secs(600);

/// Plays a scene on a real Asterisk, in real time.
pub fn real<F: Future<Output = ()>>(scene: impl FnOnce() -> F) {
    // By their name emulated scenes beside it know that these threads are none of theirs.
    let runtime = Builder::new_multi_thread().enable_all().thread_name("real-scene").build();
    let played = async { timeout(REAL_SCENE_MAX, scene()).await };
    runtime.expect("a runtime").block_on(played).expect("the scene ends within its limit");
}

/// Runs a program to its end. The clock of an emulated scene stands still meanwhile.
pub async fn output_of(mut program: std::process::Command) -> Output {
    virtual_time::outside(move || virtual_time::output_of(&mut program).expect("a program that is there")).await
}

/// Makes tests of the scenes of a file: modules `emulated`, `real` and `only_real`, in which each test has the name of its scene.
///
/// - `real`: on both worlds, always. `tests/calls/mod.rs` tells how these are chosen.
/// - `both`: on the emulated exchange always, on the real one where all is asked for (`make test REAL=all`).
/// - `only_real`: what only a real part beside Asterisk can show, always on a real Asterisk; a comment says what it is.
/// - `on_request`: the same where all is asked for, and where another test shows most of it always; a comment says which.
#[macro_export]
macro_rules! scenes {
    (
        $(real: $($real:ident),* $(,)?;)?
        $(both: $($both:ident),* $(,)?;)?
        $(only_real: $($only_real:ident),* $(,)?;)?
        $(on_request: $($on_request:ident),* $(,)?;)?
    ) => {
        mod emulated {
            $($(#[test] fn $real() { $crate::world::emulated(super::$real); })*)?
            $($(#[test] fn $both() { $crate::world::emulated(super::$both); })*)?
        }

        mod real {
            $($(#[test] fn $real() { $crate::world::real(super::$real); })*)?
            $($(#[test] #[ignore = "REAL=all"] fn $both() { $crate::world::real(super::$both); })*)?
        }

        mod only_real {
            $($(#[test] fn $only_real() { $crate::world::real(super::$only_real); })*)?
            $($(#[test] #[ignore = "REAL=all"] fn $on_request() { $crate::world::real(super::$on_request); })*)?
        }
    };
}
