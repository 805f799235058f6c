use super::*;

const FRAME: Duration = Duration::from_millis(20);
const SENT: Frame = Frame { left: true, sounds: false };

/// A call in a world that a test describes, 20 ms at a time, by no clock but its own.
struct World {
    judge: Judge,
    now: Instant,
    /// The last packet that came here.
    heard: Option<Instant>,
    /// What Asterisk has counted.
    received: u64,
    sent: u64,
    /// Since when it is looked at, with what it had counted.
    look: Option<(Instant, u64, u64)>,
    looks: u32,
    told: Vec<(Verdict, Duration)>,
}

/// What passes in a stretch of time.
#[derive(Clone, Copy)]
struct Passes {
    phone_to_asterisk: bool,
    asterisk_to_us: bool,
    /// What we play reaches Asterisk, which sends it on.
    asterisk_to_phone: bool,
    /// The socket takes our frames.
    taken: bool,
    /// They are no silence.
    sounds: bool,
    held: bool,
}

const TALK: Passes = Passes {
    phone_to_asterisk: true,
    asterisk_to_us: true,
    asterisk_to_phone: true,
    taken: true,
    sounds: false,
    held: false,
};
const DEAD: Passes = Passes { asterisk_to_us: false, asterisk_to_phone: false, ..TALK };
/// The worst of them: nothing passes in any direction, as over a dead path.
const HOLD: Passes =
    Passes { phone_to_asterisk: false, asterisk_to_us: false, asterisk_to_phone: false, held: true, ..TALK };
/// The agent speaks, and the caller hears nothing of it.
const MUTE: Passes = Passes { asterisk_to_phone: false, sounds: true, ..TALK };

impl World {
    fn new() -> Self {
        let now = Instant::now();
        let (heard, look, told) = (None, None, Vec::new());
        Self { judge: Judge::new(now), now, heard, received: 0, sent: 0, look, looks: 0, told }
    }

    /// Goes on so for this long.
    fn passes(&mut self, for_: Duration, what: Passes) -> &mut Self {
        let began = self.now;
        while self.now < began + for_ {
            self.now += FRAME;
            self.received += u64::from(what.phone_to_asterisk);
            self.sent += u64::from(what.asterisk_to_phone);
            if what.phone_to_asterisk && what.asterisk_to_us {
                self.heard = Some(self.now);
            }
            let heard = self.heard.map(|heard| self.now - heard);
            let frame = Frame { left: what.taken, sounds: what.sounds };
            let due = self.judge.plays(self.now, frame, heard, what.held);
            match self.look {
                None if due => {
                    self.look = Some((self.now, self.received, self.sent));
                    self.looks += 1;
                }
                Some((since, received, sent)) if self.now - since >= LOOK => {
                    self.look = None;
                    let (received, sent) = (self.received - received, self.sent - sent);
                    let looked = Looked { since, received, sent };
                    let verdict = self.judge.looked(Some(looked), self.now, heard, what.held);
                    if matches!(verdict, Verdict::Fault(_)) {
                        self.judge.begins_anew();
                        self.heard = None;
                    }
                    if verdict != Verdict::Fine {
                        self.told.push((verdict, self.now - began));
                    }
                }
                _ => {}
            }
        }
        self
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Faults are told within this, so that a repair and the first frame after it fit two seconds.
const SOON: Duration = Duration::from_millis(1_500);

/// T22: noticed in time.
#[test]
fn a_dead_path_is_told_within_a_second_and_a_half_whether_or_not_the_phone_sends() {
    let silent = Passes { phone_to_asterisk: false, ..DEAD };
    // Its socket is full: Asterisk reads nothing, and what it sends still comes.
    let unread = Passes { asterisk_to_us: true, taken: false, ..DEAD };
    for (what, fault) in [(DEAD, PathFault::Deaf), (silent, PathFault::Dead), (unread, PathFault::Dead)] {
        let mut world = World::new();
        world.passes(seconds(3), TALK).passes(SOON, what);
        assert_eq!(world.told.first().map(|(verdict, _)| verdict), Some(&Verdict::Fault(fault)), "{fault:?}");
    }
}

/// T22: on hold.
#[test]
fn a_caller_on_hold_is_no_fault_however_long_and_whatever_happens_at_both_ends_of_it() {
    // Times that are no multiple of any other, so that hold begins and ends in every moment of a look.
    for talks in (0..120).map(|step| seconds(2) + step * FRAME) {
        for holds in [Duration::from_millis(340), Duration::from_millis(1_780), seconds(37)] {
            let mut world = World::new();
            world.passes(talks, TALK).passes(holds, HOLD).passes(seconds(3), TALK);
            assert_eq!(world.told, [], "talks {talks:?}, holds {holds:?}");
        }
    }
}

#[test]
fn a_caller_who_pauses_before_hold_and_after_it_is_none_either() {
    // The phone is mute around it: between the packets and the event that tells of hold there is time.
    let mute = Passes { phone_to_asterisk: false, asterisk_to_us: false, ..TALK };
    for step in 0..60 {
        let mut world = World::new();
        world.passes(seconds(2), TALK).passes(seconds(1) + step * FRAME, mute).passes(seconds(5), HOLD);
        world.passes(seconds(2), mute).passes(seconds(1), TALK);
        assert_eq!(world.told, [], "{step}");
    }
}

#[test]
fn a_path_that_died_while_the_caller_was_on_hold_is_told_soon_after() {
    let mut world = World::new();
    world.passes(seconds(3), TALK).passes(seconds(20), HOLD);
    assert_eq!((world.told.len(), world.looks), (0, 0), "nobody looks at a caller on hold");
    world.passes(SOON, DEAD);
    assert_eq!(world.told.first().map(|(verdict, _)| verdict), Some(&Verdict::Fault(PathFault::Deaf)));
}

/// One-way silence, towards the caller.
#[test]
fn an_agent_whom_the_caller_does_not_hear_is_told_within_a_second_and_a_half_whatever_the_moment() {
    for step in 0..60 {
        let mut world = World::new();
        let speaks = Passes { sounds: true, ..TALK };
        world.passes(seconds(3) + step * FRAME, speaks).passes(SOON, MUTE);
        let told: Vec<_> = world.told.iter().map(|(verdict, _)| verdict).collect();
        assert_eq!(told, [&Verdict::Fault(PathFault::Mute)], "{step}");
    }
}

#[test]
fn nobody_looks_whether_silence_gets_to_the_caller_and_a_short_gap_is_no_fault() {
    let mut world = World::new();
    world.passes(seconds(30), TALK);
    assert_eq!(world.looks, 0);
    for gap in (1..29).map(|frames| frames * FRAME) {
        let speaks = Passes { sounds: true, ..TALK };
        world.passes(seconds(2), speaks).passes(gap, MUTE);
    }
    world.passes(seconds(10), TALK);
    assert_eq!(world.told, []);
}

#[test]
fn a_path_over_which_nothing_ever_came_is_replaced_once_and_then_told_once() {
    for (what, fault) in [(DEAD, PathFault::Deaf), (MUTE, PathFault::Mute)] {
        let mut world = World::new();
        world.passes(seconds(60), what);
        let told: Vec<_> = world.told.iter().map(|(verdict, _)| verdict).collect();
        assert_eq!(told, [&Verdict::Fault(fault), &Verdict::NeverWorked(fault)]);
    }
}

/// A softphone that pastes digits by SIP INFO: Asterisk passes no sound on before all of them are taken, one after the other.
#[test]
fn keys_that_follow_one_another_without_a_pause_are_no_fault_and_a_path_that_dies_after_them_is_told() {
    let taken = Passes { asterisk_to_us: false, ..TALK };
    let mut world = World::new();
    world.passes(seconds(2), TALK);
    for _ in 0..20 {
        world.passes(Duration::from_millis(240), taken);
        world.judge.key(world.now);
    }
    world.passes(Duration::from_millis(400), taken).passes(seconds(3), TALK);
    assert_eq!(world.told, []);
    world.judge.key(world.now);
    world.passes(SOON, DEAD);
    assert_eq!(world.told.first().map(|(verdict, _)| verdict), Some(&Verdict::Fault(PathFault::Deaf)));
}

/// T22: silent.
#[test]
fn a_silent_phone_is_no_fault_and_is_looked_at_less_and_less() {
    let mute = Passes { phone_to_asterisk: false, asterisk_to_us: false, ..TALK };
    let mut world = World::new();
    world.passes(seconds(3), TALK).passes(seconds(60), mute);
    assert_eq!(world.told, []);
    assert!((12..=25).contains(&world.looks), "{} looks", world.looks);
}

/// As when the network to it was away for a while.
#[test]
fn an_asterisk_that_did_not_answer_is_asked_again_soon() {
    let mut judge = Judge::new(Instant::now());
    let now = Instant::now() + seconds(1);
    assert!(judge.plays(now, SENT, Some(seconds(1)), false));
    judge.not_told(now);
    assert!(!judge.plays(now + FRAME, SENT, Some(seconds(1)), false), "not every 20 ms");
    assert!(judge.plays(now + seconds(1), SENT, Some(seconds(2)), false));
}

#[test]
fn an_asterisk_that_cannot_tell_is_not_asked_again() {
    let mut judge = Judge::new(Instant::now());
    let now = Instant::now() + seconds(1);
    assert!(judge.plays(now, SENT, Some(seconds(1)), false));
    assert_eq!(judge.looked(None, now, Some(seconds(1)), false), Verdict::Fine);
    assert!(!judge.plays(now + seconds(60), Frame { left: false, ..SENT }, Some(seconds(61)), false));
}
