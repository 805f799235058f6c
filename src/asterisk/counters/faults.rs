//! What an audio path can suffer from, and what becomes of it.

/// What is wrong with a call's audio path while the caller is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathFault {
    /// Its socket was closed by the other side, or broke.
    Closed,
    /// What came was not the protocol.
    Broken,
    /// Asterisk's media channel ended.
    ChannelGone,
    /// The call's bridge was removed, or the caller or the media channel is not in it any more.
    Unbridged,
    /// Asterisk hears the caller, and nothing of it arrives here.
    Deaf,
    /// Nothing arrives here, and of what is sent Asterisk passes nothing on.
    Dead,
    /// The caller is heard here, and Asterisk passes nothing on of what is sent.
    Mute,
    /// The caller interrupted, and Asterisk throws nothing away of the much that waits there.
    Behind,
}

impl PathFault {
    pub const ALL: [Self; 8] = [
        Self::Closed,
        Self::Broken,
        Self::ChannelGone,
        Self::Unbridged,
        Self::Deaf,
        Self::Dead,
        Self::Mute,
        Self::Behind,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Broken => "broken",
            Self::ChannelGone => "channel_gone",
            Self::Unbridged => "unbridged",
            Self::Deaf => "deaf",
            Self::Dead => "dead",
            Self::Mute => "mute",
            Self::Behind => "behind",
        }
    }
}

/// What became of an audio path that was to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RepairEnd {
    Repaired,
    /// An attempt failed, and the next one was waited for.
    Retried,
    /// Nor did the last attempt find another path.
    Failed,
    /// The call had used up its repairs.
    Exhausted,
    /// The call ended meanwhile.
    GivenUp,
}

impl RepairEnd {
    pub const ALL: [Self; 5] = [Self::Repaired, Self::Retried, Self::Failed, Self::Exhausted, Self::GivenUp];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Repaired => "repaired",
            Self::Retried => "retried",
            Self::Failed => "failed",
            Self::Exhausted => "exhausted",
            Self::GivenUp => "given_up",
        }
    }
}

/// What the first seconds of an audio path make suspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suspicion {
    /// Loud, and no sound: bytes of another codec.
    Noise,
    /// Packets whose length is no packet time.
    FrameSize,
}

impl Suspicion {
    pub const ALL: [Self; 2] = [Self::Noise, Self::FrameSize];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Noise => "noise",
            Self::FrameSize => "frame_size",
        }
    }

    /// For the operator, with the remedy.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Noise => {
                "what arrives of the caller is noise, as another codec's bytes are: run `offhook media-test`, and let nothing \
                 between Asterisk and offhook change the audio"
            }
            Self::FrameSize => {
                "audio arrives in packets of no usual length: is the leg's rate another than was asked for? `core show \
                 channel` tells its format"
            }
        }
    }
}
