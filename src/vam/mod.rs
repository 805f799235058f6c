//! VAM/1.0: conversations and actions over gRPC, for clients and action servers that know nothing of Asterisk.
//!
//! Origin: <https://github.com/vani-voice/vani>; the messages are in `proto/vani/v1`.

pub mod wire;
