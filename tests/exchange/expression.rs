use crate::kit::exchange::expression::*;

struct Fixed;

impl Values for Fixed {
    fn variable(&self, name: &str) -> Option<String> {
        let known: [(&str, &str); 5] =
            [("EXTEN", "812345"), ("A", "1"), ("NAME", "A"), ("STATUS", "FAILED"), ("EPOCH", "100")];
        known.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    }

    fn function(&self, name: &str, arguments: &str) -> Option<String> {
        let (condition, branches) = (name == "IF").then(|| arguments.split_once('?')).flatten()?;
        let (yes, no) = branches.split_once(':').unwrap_or((branches, ""));
        Some(if is_true(condition) { yes } else { no }.to_owned())
    }
}

#[test]
fn text_is_filled_in_as_asterisk_does() {
    for (text, filled) in [
        ("sip:phone@127.0.0.1:${EXTEN:1},20,r", "sip:phone@127.0.0.1:12345,20,r"),
        ("${EXTEN:-2} ${EXTEN:1:2} ${NONE} $5", "45 12  $5"),
        ("${${NAME}}", "1"),
        ("$[\"${STATUS}\" = \"FAILED\"]?human", "1?human"),
        ("$[\"${NONE}\" = \"\" | \"${STATUS}\" = \"X\"]", "1"),
        ("$[\"${STATUS}\" = \"OK\" | ${EPOCH} - 99 < 2]", "1"),
        ("$[\"${STATUS}\" = \"OK\" | ${EPOCH} - 90 < 2]", "0"),
        ("$[ (1 + 2) * 3 >= 9 & !0 ]", "1"),
        ("call: ${IF($[\"${NONE}\" = \"\"]?not connected:${STATUS})}", "call: not connected"),
        ("call: ${IF($[\"${STATUS}\" = \"\"]?not connected:${STATUS})}", "call: FAILED"),
    ] {
        assert_eq!(substitute(text, &Fixed), filled, "{text}");
    }
}
