//! Parts of the emulated Asterisk that no scene would show: how it reads the dialplan, its changes of rate, and a bridge of three.

mod dialplan;
mod expression;
mod frame;
mod mixing;
