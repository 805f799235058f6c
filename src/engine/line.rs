//! The Asterisk side of one call, whichever way it came, as the call task uses it.

use crate::{
    asterisk::{
        media::{MediaEvent, MediaLeg},
    },
    call::{LegCommand, LegEvent},
};
