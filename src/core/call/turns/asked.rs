//! Whether the agent's last words asked for letters or digits, one by one.
//!
//! Where no words of the caller are known in time, their first letter sounds like a "yes": only the question tells how long to
//! wait for the next one.

use super::backchannels::is_of_word;

/// Asks for letters or digits whatever else is in the sentence: English, German, French, Spanish, Italian, Dutch, Portuguese, Hindi,
/// Arabic, Urdu, Norwegian.
const SPELLING: &[&str] = &[
    "spell",
    "letter by letter",
    "digit by digit",
    "buchstabier",
    "buchstabe für buchstabe",
    "ziffer für ziffer",
    "épel",
    "lettre par lettre",
    "chiffre par chiffre",
    "deletre",
    "letra por letra",
    "dígito por dígito",
    "lettera per lettera",
    "cifra per cifra",
    "letter voor letter",
    "cijfer voor cijfer",
    "soletr",
    "स्पेलिंग",
    "वर्तनी",
    "हिज्जे",
    "एक-एक अक्षर",
    "एक एक अक्षर",
    "एक-एक अंक",
    "एक एक अंक",
    "تهج",
    "حرفًا حرفًا",
    "حرفاً حرفاً",
    "حرفا حرفا",
    "رقمًا رقمًا",
    "رقماً رقماً",
    "رقما رقما",
    "ہجے",
    "سپیلنگ",
    "ایک ایک حرف",
    "ایک ایک ہندسہ",
    "stave",
    "bokstav for bokstav",
    "siffer for siffer",
];
/// Things that are said digit by digit.
const NUMBERS: &[&str] = &[
    "cap",
    "cijfers",
    "chiffres",
    "code",
    "código",
    "codice",
    "cifre",
    "digits",
    "dígitos",
    "number",
    "nummer",
    "numero",
    "numéro",
    "número",
    "pin",
    "postcode",
    "postleitzahl",
    "zip",
    "ziffern",
    "नंबर",
    "नम्बर",
    "कोड",
    "पिन",
    "رقم",
    "رقمك",
    "الرقم",
    "رمز",
    "رمزك",
    "الرمز",
    "كود",
    "الكود",
    "نمبر",
    "کوڈ",
    "پن",
    "kode",
    "koden",
    "pinkode",
    "pinkoden",
    "sifre",
    "sifrene",
];
/// Words of a request, as against those of a question whether something is so.
const REQUESTS: &[&str] = &[
    "can",
    "could",
    "may",
    "what",
    "what's",
    "which",
    "darf",
    "geben",
    "können",
    "könnten",
    "nennen",
    "sagen",
    "welche",
    "wie",
    "donner",
    "pourriez",
    "pouvez",
    "quel",
    "quelle",
    "cuál",
    "darme",
    "dígame",
    "podría",
    "puede",
    "dirmi",
    "potrebbe",
    "può",
    "qual",
    "da",
    "qué",
    "cómo",
    "quali",
    "geven",
    "kunt",
    "mag",
    "wat",
    "welk",
    "dizer",
    "pode",
    "poderia",
    "क्या",
    "बताइए",
    "बताइये",
    "बताएं",
    "बताएँ",
    "दीजिए",
    "ما",
    "كم",
    "يمكنك",
    "ممكن",
    "أعطني",
    "تعطيني",
    "کیا",
    "بتائیں",
    "بتائیے",
    "دیجیے",
    "hva",
    "hvilken",
    "hvilket",
    "kunne",
    "gi",
    "oppgi",
    "si",
    "får",
];

/// First words of a question whether something is so: "Is that spelled with a K?"
const CONFIRMS: &[&str] =
    &["ai", "did", "er", "es", "est", "habe", "har", "have", "he", "heb", "ho", "is", "ist", "war", "was", "è", "é"];

/// Ends of sentences.
const ENDS: [char; 7] = ['.', '!', '?', '？', '؟', '।', '۔'];

/// Judges the last sentence of what the agent said. A number counts only in a question: "Our number is …" asks for nothing.
pub(super) fn for_spelling(text: &str) -> bool {
    let text = text.trim().to_lowercase();
    let asks = text.ends_with(['?', '？', '؟']);
    let last = text.trim_end_matches(ENDS).rsplit(ENDS).next().unwrap_or_default();
    let words = || last.split(|c| !is_of_word(c) && c != '\'' && c != '’').map(|word| word.replace('’', "'"));
    let first = words().find(|word| !word.is_empty());
    if SPELLING.iter().any(|phrase| last.contains(phrase)) {
        return !(asks && first.is_some_and(|first| CONFIRMS.contains(&&*first)));
    }
    // German and Norwegian join what is counted with it: "Kundennummer".
    let number =
        words().any(|word| NUMBERS.contains(&&*word) || word.ends_with("nummer") || word.ends_with("nummeret"));
    asks && number && words().any(|word| REQUESTS.contains(&&*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_to_spell_or_for_a_number_is_known_in_each_language() {
        for question in [
            "Could you spell your last name, please?",
            "Please spell that for me.",
            "Thank you. What is your order number?",
            "May I have your phone number?",
            "What’s the four-digit PIN?",
            "Können Sie das bitte buchstabieren?",
            "Danke. Wie lautet Ihre Kundennummer?",
            "Pouvez-vous l'épeler ?",
            "Quel est votre numéro de téléphone ?",
            "¿Me lo puede deletrear?",
            "¿Cuál es su número de cliente?",
            "Me lo può dire lettera per lettera?",
            "Qual è il codice?",
            "Kunt u dat letter voor letter zeggen?",
            "Pode soletrar, por favor?",
            "कृपया अपने नाम की स्पेलिंग बताइए।",
            "धन्यवाद। आपका फ़ोन नम्बर क्या है?",
            "هل يمكنك تهجئة اسمك؟",
            "شكرًا. ما هو رقم هاتفك؟",
            "براہ کرم اپنے نام کے ہجے بتائیں۔",
            "آپ کا فون نمبر کیا ہے؟",
            "Kan du stave etternavnet ditt?",
            "Takk. Hva er kundenummeret ditt?",
        ] {
            assert!(for_spelling(question), "{question}");
        }
    }

    #[test]
    fn other_words_and_other_questions_ask_for_none() {
        for words in [
            "",
            "How can I help you?",
            "Is this number still right?",
            "Is that spelled with a K?",
            "Habe ich das richtig buchstabiert?",
            "Our number is 555 0100.",
            "What is your number? Sorry, you gave it already.",
            "You can enter a code later. Do you want to go on?",
            "Wie kann ich Ihnen helfen?",
            "मैं आपकी क्या मदद कर सकता हूँ?",
            "हमारा नंबर 555 0100 है।",
            "كيف يمكنني مساعدتك؟",
            "میں آپ کی کیا مدد کر سکتا ہوں؟",
            "Er det stavet med K?",
            "Hva kan jeg hjelpe deg med?",
        ] {
            assert!(!for_spelling(words), "{words}");
        }
    }
}
