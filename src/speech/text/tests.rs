use super::*;
use VoiceLanguage::{AmericanEnglish, Dutch, English, French, German, Italian, Portuguese, Spanish};

fn says(language: VoiceLanguage, rows: &[(&str, &str)]) {
    for (written, said) in rows {
        assert_eq!(normalized(written, Some(language)), *said, "{language:?}");
    }
}

#[test]
fn the_language_is_known_by_the_name_of_a_voice() {
    let rows = [
        ("en-us+f3", Some(AmericanEnglish)),
        ("en_US-joe-medium", Some(AmericanEnglish)),
        ("en", Some(English)),
        ("en-gb-scotland", Some(English)),
        ("de_DE-thorsten-medium", Some(German)),
        ("pt-BR", Some(Portuguese)),
        ("nl", Some(Dutch)),
        ("hi", None),
        ("thorsten", None),
        ("", None),
    ];
    for (name, language) in rows {
        assert_eq!(VoiceLanguage::of(name), language, "{name}");
    }
}

#[test]
fn amounts_of_money_are_said_as_amounts() {
    says(
        AmericanEnglish,
        &[
            ("It costs $4.50.", "It costs 4 dollars and 50 cents."),
            ("$1 or $1.01, $0.50 off", "1 dollar or 1 dollar and 1 cent, 50 cents off"),
            ("£1,200 is 1,370.5 EUR.", "1200 pounds is 1370 euros and 50 cents."),
            ("$0 today", "0 dollars today"),
            ("$3 million, $5k, $2-3, $10-$20 and $0.125", "$3 million, $5k, $2-3, $10-$20 and $0.125"),
            ("$1,250,000 and a $50 fee", "1,250,000 dollars and a 50 dollar fee"),
            ("Press $.", "Press $."),
        ],
    );
    says(
        German,
        &[("Das macht 4,50 €, nicht €1.200,00.", "Das macht 4 Euro 50, nicht 1200 Euro."), ("1 €", "ein Euro")],
    );
    says(German, &[("0,319 €/kWh, 1,659 € und 1.250.000 €", "0,319 €/kWh, 1,659 € und 1.250.000 Euro")]);
    says(French, &[("6,00 € ou 1 €, 2 000 €", "6 euros ou un euro, 2000 euros")]);
    says(Spanish, &[("Son 4,50 €.", "Son 4 euros con 50."), ("0,50 €", "50 céntimos")]);
    says(Italian, &[("Costa 12,30 €.", "Costa 12 euro e 30.")]);
    says(Dutch, &[("Dat kost €7,95.", "Dat kost 7 euro 95.")]);
    says(Portuguese, &[("Custa 2,20 €.", "Custa 2 euros e 20.")]);
}

#[test]
fn dates_are_said_with_the_name_of_the_month() {
    says(
        AmericanEnglish,
        &[
            ("On 2026-12-03.", "On December 3rd, 2026."),
            ("2026-12-03T14:30:00+01:00", "December 3rd, 2026, 2 30 pm"),
            ("2026-12-03T09:00Z", "December 3rd, 2026, 9 o'clock UTC"),
            ("12/24/2026", "December 24th, 2026"),
            ("Until December 22, 2026 or May 1.", "Until December 22nd, 2026 or May 1st."),
            ("March 2026, 2026-13-01, 13/24/2026", "March 2026, 2026-13-01, 13/24/2026"),
            ("In May 20 people came on March 15-17.", "In May 20 people came on March 15-17."),
        ],
    );
    says(English, &[("24/12/2026 or 03/04/2026", "December 24th, 2026 or 03/04/2026")]);
    says(
        German,
        &[
            ("Am 24.12.2026 um 14.30 Uhr.", "Am vierundzwanzigsten Dezember 2026 um 14 Uhr 30."),
            ("Der 3. Mai ist frei.", "Der dritte Mai ist frei."),
            ("Dienstag, 1. Juni", "Dienstag, erster Juni"),
            ("am 31.12. wieder", "am einunddreißigsten Dezember wieder"),
            ("Version 2.0.1", "Version 2.0.1"),
            ("Sie haben Version 3.1.", "Sie haben Version 3.1."),
        ],
    );
    says(
        French,
        &[("le 01/12/2026 à 14h30, de 9h à 18 h.", "le 1er décembre 2026 à 14 heures 30, de 9 heures à 18 heures.")],
    );
    says(English, &[("03/04/2026 10:00", "03/04/2026 10 o'clock")]);
    says(Spanish, &[("el 2026-12-03", "el 3 de diciembre de 2026")]);
    says(Italian, &[("il 03/12/2026", "il 3 dicembre 2026")]);
    says(Dutch, &[("op 24-12-2026", "op 24 december 2026")]);
    says(Portuguese, &[("em 03/12/2026", "em 3 de dezembro de 2026")]);
}

#[test]
fn times_are_said_as_times() {
    says(
        AmericanEnglish,
        &[
            ("From 10:00 to 14:30.", "From 10 o'clock to 2 30 pm."),
            ("At 9:05 a.m. or 10:00 pm", "At 9 oh 5 a.m. or 10 pm"),
            ("00:15", "12 15 am"),
            ("3:2 and 25:61 and 1:23:45", "3:2 and 25:61 and 1:23:45"),
        ],
    );
    says(German, &[("um 14:00 Uhr oder 9:15", "um 14 Uhr oder 9 Uhr 15")]);
    says(Spanish, &[("a las 10:00 o 10:30", "a las 10 o 10 y 30"), ("a las 8:00 p.m.", "a las 8:00 p.m.")]);
    says(Italian, &[("alle 14:30", "alle 14 e 30")]);
    says(Dutch, &[("om 14:30", "om 14 uur 30")]);
    says(Portuguese, &[("às 10:00", "às 10 horas"), ("às 14:00 horas", "às 14 horas")]);
}

#[test]
fn addresses_are_said_in_words_without_what_nobody_writes_down() {
    says(
        English,
        &[
            ("Write to info@my-shop.example.com.", "Write to info at my dash shop dot example dot com."),
            ("See https://www.example.com/help?utm=1.", "See example dot com slash help."),
            ("See <http://example.com/>!", "See example dot com!"),
            ("www.example.com", "example dot com"),
        ],
    );
    says(German, &[("an max_m@example.de", "an max Unterstrich m ät example Punkt de")]);
    assert_eq!(normalized("See https://example.com/a?b#c.", None), "See example.com/a.");
}

#[test]
fn telephone_numbers_and_other_long_ones_are_said_figure_by_figure() {
    says(
        AmericanEnglish,
        &[
            ("Call +1 (555) 010-4477.", "Call plus 1, 5 5 5, 0 1 0, 4 4 7 7."),
            ("555-010-4477", "5 5 5, 0 1 0, 4 4 7 7"),
            ("Order 12345678 is out.", "Order 1 2 3, 4 5 6, 7 8 is out."),
            ("1200 of 65000 in 2026", "1200 of 65000 in 2026"),
            ("AB1234567, 3500000 people", "AB1234567, 3500000 people"),
            ("1-800-555-0199 (24/7)", "1, 8 0 0, 5 5 5, 0 1 9 9 (24/7)"),
        ],
    );
    says(
        German,
        &[(
            "unter 030 901820 (9-17 Uhr) / 0171 2345678",
            "unter 0 3 0, 9 0 1, 8 2 0 (9-17 Uhr) / 0 1 7 1, 2 3 4, 5 6 7 8",
        )],
    );
    says(Spanish, &[("+34 600 123 456", "más 3 4, 6 0 0, 1 2 3, 4 5 6")]);
}

#[test]
fn tags_and_stage_directions_are_not_said_and_other_brackets_are() {
    for language in [None, Some(English)] {
        for (written, said) in [
            ("<speak>Hello. <break time=\"500ms\"/>Bye.</speak>", "Hello. Bye."),
            ("Well [pause] yes (laughs softly) of course.", "Well yes of course."),
            ("[clears throat] Good morning", "Good morning"),
            ("Open (Monday to Friday), [ticket] 5", "Open (Monday to Friday), [ticket] 5"),
            ("(cough syrup) (Pause inbegriffen) (laughter yoga)", "(cough syrup) (Pause inbegriffen) (laughter yoga)"),
            ("a < b and c > d", "a < b and c > d"),
        ] {
            assert_eq!(normalized(written, language), said);
        }
    }
}

#[test]
fn text_in_a_language_without_rules_and_plain_text_stay_as_they_are() {
    for text in ["नमस्ते, 10:30 बजे।", "Total: $4.50, 2026-12-03."] {
        assert_eq!(normalized(text, None), text);
    }
    for language in [English, German, French, Spanish, Italian, Dutch, Portuguese] {
        for text in ["Room 12, floor 3.", "A 4 by 4, version 2.5 - 10 %!", "…", ""] {
            assert_eq!(normalized(text, Some(language)), text, "{language:?}");
        }
    }
}
