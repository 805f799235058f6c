use crate::kit::exchange::dialplan::*;

fn application(dialplan: &Dialplan, context: &str, extension: &str, priority: u32) -> String {
    let step = dialplan.find(&Place::of(context, extension, priority)).expect("a step");
    format!("{}({})", step.application, step.arguments)
}

#[test]
fn the_labs_dialplan_has_its_own_extensions_and_those_of_the_project_and_of_the_test() {
    let extra =
        "[lab-callers](+)\nexten => mine,1,Answer() ; at once\n same => n(on),Wait(1)\n[more]\nexten => s,1,NoOp\n";
    let dialplan = Dialplan::of_the_lab(Some("127.0.0.1:7"), extra);
    assert_eq!(dialplan.globals["OFFHOOK_AUDIOSOCKET"], "127.0.0.1:7");
    assert_eq!(application(&dialplan, "lab-callers", "7000", 1), "Stasis(offhook)");
    assert_eq!(application(&dialplan, "lab-callers", "7100", 1), "Goto(offhook-default,s,1)");
    assert_eq!(application(&dialplan, "lab-callers", "mine", 2), "Wait(1)");
    assert_eq!(application(&dialplan, "more", "s", 1), "NoOp()");
    assert!(application(&dialplan, "lab-callers", "812345", 1).starts_with("Dial(PJSIP/"));
    assert!(!dialplan.exists("lab-callers", "8123", 1) && !dialplan.exists("lab-targets", "nowhere", 1));
    let here = Place::of("lab-callers", "mine", 1);
    assert_eq!(dialplan.resolve(&here, "on"), Some(Place::of("lab-callers", "mine", 2)));
    assert_eq!(dialplan.resolve(&here, "more,s,1"), Some(Place::of("more", "s", 1)));
    assert_eq!(dialplan.resolve(&here, "off"), None);
}

#[test]
fn patterns_are_those_of_asterisk() {
    for (pattern, extension, is_one) in [
        ("_8XXXX", "81234", true),
        ("_8XXXX", "812345", false),
        ("_rate-.", "rate-slin12", true),
        ("_rate-.", "rate-", false),
        ("_NZ[13]", "211", true),
        ("_NZ[13]", "112", false),
        ("8XXXX", "81234", false),
    ] {
        assert_eq!(fits(pattern, extension), is_one, "{pattern} {extension}");
    }
}
