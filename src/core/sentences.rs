//! Sentences of the engine's own for callers, in ten languages.

use std::collections::BTreeMap;

/// A language in which the engine has every sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Language {
    #[default]
    English,
    German,
    Spanish,
    French,
    Italian,
    Portuguese,
    Dutch,
    Hindi,
    Arabic,
    Norwegian,
}

impl Language {
    /// In the order of the texts below.
    pub const ALL: [Self; 10] = [
        Self::English,
        Self::German,
        Self::Spanish,
        Self::French,
        Self::Italian,
        Self::Portuguese,
        Self::Dutch,
        Self::Hindi,
        Self::Arabic,
        Self::Norwegian,
    ];

    /// Its code of ISO 639-1.
    pub const fn code(self) -> &'static str {
        ["en", "de", "es", "fr", "it", "pt", "nl", "hi", "ar", "no"][self as usize]
    }

    pub const fn name(self) -> &'static str {
        ["English", "German", "Spanish", "French", "Italian", "Portuguese", "Dutch", "Hindi", "Arabic", "Norwegian"]
            [self as usize]
    }

    /// Finds a language by its tag of BCP 47, such as `de` or `pt-BR`; both written forms of Norwegian are read as Bokmål.
    pub fn of(tag: &str) -> Option<Self> {
        let code = tag.split('-').next()?.to_ascii_lowercase();
        let code = if matches!(&*code, "nb" | "nn") { "no" } else { &*code };
        Self::ALL.into_iter().find(|language| language.code() == code)
    }
}

/// A sentence of the engine's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sentence {
    /// No agent can be had any more.
    Apology,
    /// Silence would be unexplained.
    Moment,
    /// The wait goes on.
    Patience,
    /// The caller says nothing.
    AreYouThere,
    /// The caller has said nothing for too long.
    NotHeard,
    /// The call has lasted as long as it may.
    CallTooLong,
    /// The caller comes back from hold.
    AfterHold,
    /// A model had nothing to say.
    NotAnswered,
    /// A transfer failed: nobody took the call.
    TransferNoAnswer,
    TransferBusy,
    TransferRefused,
    TransferUnreachable,
    /// The caller is to identify themselves.
    EnterPin,
    /// How keys come to their end; follows what is asked for.
    EndWithHash,
    EndWithStar,
    /// An attendant hands the caller on, or to a mailbox.
    Connecting,
    /// An attendant ends the call.
    Goodbye,
    /// An attendant has done something that needs no other words.
    Done,
    /// An attendant greets.
    Hello,
    /// An attendant has heard nothing that it knows.
    NotUnderstood,
    /// A tool of an attendant's has failed.
    DidNotWork,
}

impl Sentence {
    pub const ALL: [Self; 21] = [
        Self::Apology,
        Self::Moment,
        Self::Patience,
        Self::AreYouThere,
        Self::NotHeard,
        Self::CallTooLong,
        Self::AfterHold,
        Self::NotAnswered,
        Self::TransferNoAnswer,
        Self::TransferBusy,
        Self::TransferRefused,
        Self::TransferUnreachable,
        Self::EnterPin,
        Self::EndWithHash,
        Self::EndWithStar,
        Self::Connecting,
        Self::Goodbye,
        Self::Done,
        Self::Hello,
        Self::NotUnderstood,
        Self::DidNotWork,
    ];

    pub const fn text(self, language: Language) -> &'static str {
        self.texts()[language as usize]
    }

    const fn texts(self) -> &'static Texts {
        match self {
            Self::Apology => &APOLOGY,
            Self::Moment => &MOMENT,
            Self::Patience => &PATIENCE,
            Self::AreYouThere => &ARE_YOU_THERE,
            Self::NotHeard => &NOT_HEARD,
            Self::CallTooLong => &CALL_TOO_LONG,
            Self::AfterHold => &AFTER_HOLD,
            Self::NotAnswered => &NOT_ANSWERED,
            Self::TransferNoAnswer => &TRANSFER_NO_ANSWER,
            Self::TransferBusy => &TRANSFER_BUSY,
            Self::TransferRefused => &TRANSFER_REFUSED,
            Self::TransferUnreachable => &TRANSFER_UNREACHABLE,
            Self::EnterPin => &ENTER_PIN,
            Self::EndWithHash => &END_WITH_HASH,
            Self::EndWithStar => &END_WITH_STAR,
            Self::Connecting => &CONNECTING,
            Self::Goodbye => &GOODBYE,
            Self::Done => &DONE,
            Self::Hello => &HELLO,
            Self::NotUnderstood => &NOT_UNDERSTOOD,
            Self::DidNotWork => &DID_NOT_WORK,
        }
    }
}

/// The sentences of one context: those that are written in its configuration, and the others in its language.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sentences {
    /// The context's `language` in lower case; `None` where none is configured.
    pub tag: Option<String>,
    pub written: BTreeMap<Sentence, String>,
}

impl Sentences {
    pub fn of(language: Language) -> Self {
        Self { tag: Some(language.code().to_owned()), written: BTreeMap::new() }
    }

    /// Language of the sentences that are not written; English where the context's has none of ours.
    pub fn language(&self) -> Language {
        self.tag.as_deref().and_then(Language::of).unwrap_or_default()
    }

    pub fn get(&self, sentence: Sentence) -> &str {
        self.written.get(&sentence).map_or_else(|| sentence.text(self.language()), String::as_str)
    }

    /// Name of the context's language for a model; `None` where none is configured, since the prompt may tell another than
    /// English.
    pub fn language_name(&self) -> Option<String> {
        let tag = self.tag.as_deref()?;
        Some(match Language::of(tag) {
            Some(language) if language.code() == tag => language.name().to_owned(),
            Some(language) => format!("{} ({tag})", language.name()),
            None => format!("the language with the tag {tag}"),
        })
    }
}

/// One sentence in the order of [`Language::ALL`].
type Texts = [&'static str; 10];

// In English the first three are what the recordings say, and change only with them.
const APOLOGY: Texts = [
    "I am sorry, we have a technical problem, and I cannot go on with this call.",
    "Es tut mir leid, wir haben ein technisches Problem, und ich kann dieses Gespräch nicht fortsetzen.",
    "Lo siento, tenemos un problema técnico y no puedo continuar con esta llamada.",
    "Je suis désolé, nous avons un problème technique et je ne peux pas poursuivre cet appel.",
    "Mi dispiace, abbiamo un problema tecnico e non posso continuare questa chiamata.",
    "Lamento, temos um problema técnico e não posso continuar esta chamada.",
    "Het spijt me, we hebben een technisch probleem en ik kan dit gesprek niet voortzetten.",
    "क्षमा करें, हमारे यहाँ एक तकनीकी समस्या है और यह कॉल आगे नहीं बढ़ सकती।",
    "عذرًا، لدينا مشكلة تقنية ولا يمكنني متابعة هذه المكالمة.",
    "Beklager, vi har et teknisk problem, og jeg kan ikke fortsette denne samtalen.",
];
const MOMENT: Texts = [
    "One moment, please.",
    "Einen Moment, bitte.",
    "Un momento, por favor.",
    "Un instant, s'il vous plaît.",
    "Un momento, per favore.",
    "Um momento, por favor.",
    "Een ogenblik, alstublieft.",
    "कृपया एक क्षण रुकिए।",
    "لحظة واحدة من فضلك.",
    "Et øyeblikk, takk.",
];
const PATIENCE: Texts = [
    "I am still here. It takes a little longer, please stay on the line.",
    "Ich bin noch da. Es dauert etwas länger, bitte bleiben Sie am Apparat.",
    "Sigo aquí. Está tardando un poco más, no cuelgue, por favor.",
    "Je suis toujours là. Cela prend un peu plus de temps, ne quittez pas, s'il vous plaît.",
    "Sono ancora qui. Ci vuole un po' più di tempo, resti in linea, per favore.",
    "Continuo aqui. Vai demorar um pouco mais. Por favor, não desligue.",
    "Ik ben er nog. Het duurt iets langer, blijft u alstublieft aan de lijn.",
    "मैं अब भी यहीं हूँ। इसमें थोड़ा और समय लग रहा है, कृपया लाइन पर बने रहिए।",
    "ما زلت معك. يستغرق الأمر وقتًا أطول قليلًا، يُرجى البقاء على الخط.",
    "Jeg er her fortsatt. Det tar litt lengre tid, vennligst ikke legg på.",
];
const ARE_YOU_THERE: Texts = [
    "Are you still there?",
    "Sind Sie noch da?",
    "¿Sigue ahí?",
    "Êtes-vous toujours là ?",
    "È ancora in linea?",
    "Ainda está na linha?",
    "Bent u er nog?",
    "क्या आप अब भी लाइन पर हैं?",
    "هل ما زلتم على الخط؟",
    "Er du der fortsatt?",
];
const NOT_HEARD: Texts = [
    "I cannot hear you, so I will say goodbye now.",
    "Ich kann Sie nicht hören und verabschiede mich deshalb jetzt.",
    "No le oigo, así que me despido ahora.",
    "Je ne vous entends pas, je vous dis donc au revoir.",
    "Non la sento, quindi la saluto.",
    "Não consigo ouvir a sua voz, por isso vou encerrar a chamada agora.",
    "Ik hoor u niet, dus ik beëindig nu het gesprek. Tot ziens.",
    "मुझे आपकी आवाज़ नहीं आ रही है, इसलिए अब यह कॉल समाप्त की जा रही है।",
    "لا أستطيع سماعك، لذلك سأنهي المكالمة الآن. مع السلامة.",
    "Jeg kan ikke høre deg, så jeg avslutter samtalen nå. Ha det bra.",
];
const CALL_TOO_LONG: Texts = [
    "This call has reached its longest time, so I have to say goodbye.",
    "Dieses Gespräch hat seine Höchstdauer erreicht, deshalb verabschiede ich mich jetzt.",
    "Esta llamada ha alcanzado su duración máxima, así que tengo que despedirme.",
    "Cet appel a atteint sa durée maximale, je dois donc vous dire au revoir.",
    "Questa chiamata ha raggiunto la durata massima, quindi devo salutarla.",
    "Esta chamada atingiu a duração máxima, por isso vou encerrá-la agora.",
    "Dit gesprek heeft de maximale duur bereikt, dus ik moet het nu beëindigen.",
    "इस कॉल का अधिकतम समय पूरा हो गया है, इसलिए अब कॉल समाप्त की जा रही है।",
    "بلغت هذه المكالمة مدتها القصوى، لذلك سأنهيها الآن. مع السلامة.",
    "Denne samtalen har nådd maksimal lengde, så jeg må avslutte nå.",
];
const AFTER_HOLD: Texts = [
    "I am still here.",
    "Ich bin noch da.",
    "Sigo aquí.",
    "Je suis toujours là.",
    "Sono ancora qui.",
    "Continuo aqui.",
    "Ik ben er nog.",
    "मैं अब भी यहीं हूँ।",
    "ما زلت معك.",
    "Jeg er her fortsatt.",
];
const NOT_ANSWERED: Texts = [
    "I am sorry, I could not answer that. Please say it once more.",
    "Es tut mir leid, darauf konnte ich nicht antworten. Bitte sagen Sie es noch einmal.",
    "Lo siento, no he podido responder a eso. ¿Puede repetirlo, por favor?",
    "Je suis désolé, je n'ai pas pu répondre. Pouvez-vous le redire, s'il vous plaît ?",
    "Mi dispiace, non ho potuto rispondere. Può ripetere, per favore?",
    "Lamento, não consegui responder. Pode repetir, por favor?",
    "Het spijt me, daar kon ik niet op antwoorden. Zegt u het alstublieft nog een keer.",
    "क्षमा करें, इसका उत्तर नहीं मिल सका। कृपया एक बार फिर कहिए।",
    "عذرًا، لم أتمكن من الإجابة عن ذلك. يُرجى تكرار ما قلته.",
    "Beklager, det kunne jeg ikke svare på. Vennligst si det en gang til.",
];
const TRANSFER_NO_ANSWER: Texts = [
    "I could not connect you: nobody answered. Can I help you with something else?",
    "Ich konnte Sie nicht verbinden: Es hat niemand abgenommen. Kann ich sonst noch etwas für Sie tun?",
    "No he podido ponerle en contacto: no contesta nadie. ¿Puedo ayudarle en algo más?",
    "Je n'ai pas pu vous mettre en relation : personne n'a répondu. Puis-je vous aider autrement ?",
    "Non ho potuto metterla in contatto: non ha risposto nessuno. Posso aiutarla in altro modo?",
    "Não consegui transferir a chamada: ninguém atendeu. Posso ajudar em mais alguma coisa?",
    "Ik kon u niet doorverbinden: er werd niet opgenomen. Kan ik u nog ergens anders mee helpen?",
    "आपकी कॉल नहीं जोड़ी जा सकी: किसी ने फ़ोन नहीं उठाया। क्या आपकी कोई और सहायता की जा सकती है?",
    "لم أتمكن من تحويل مكالمتك: لم يرد أحد. هل يمكنني مساعدتك في شيء آخر؟",
    "Jeg kunne ikke sette deg over: ingen svarte. Kan jeg hjelpe deg med noe annet?",
];
const TRANSFER_BUSY: Texts = [
    "I could not connect you: the line is busy. Can I help you with something else?",
    "Ich konnte Sie nicht verbinden: Die Leitung ist besetzt. Kann ich sonst noch etwas für Sie tun?",
    "No he podido ponerle en contacto: la línea está ocupada. ¿Puedo ayudarle en algo más?",
    "Je n'ai pas pu vous mettre en relation : la ligne est occupée. Puis-je vous aider autrement ?",
    "Non ho potuto metterla in contatto: la linea è occupata. Posso aiutarla in altro modo?",
    "Não consegui transferir a chamada: a linha está ocupada. Posso ajudar em mais alguma coisa?",
    "Ik kon u niet doorverbinden: de lijn is bezet. Kan ik u nog ergens anders mee helpen?",
    "आपकी कॉल नहीं जोड़ी जा सकी: लाइन व्यस्त है। क्या आपकी कोई और सहायता की जा सकती है?",
    "لم أتمكن من تحويل مكالمتك: الخط مشغول. هل يمكنني مساعدتك في شيء آخر؟",
    "Jeg kunne ikke sette deg over: linjen er opptatt. Kan jeg hjelpe deg med noe annet?",
];
const TRANSFER_REFUSED: Texts = [
    "I could not connect you: the call was not accepted. Can I help you with something else?",
    "Ich konnte Sie nicht verbinden: Der Anruf wurde nicht angenommen. Kann ich sonst noch etwas für Sie tun?",
    "No he podido ponerle en contacto: no han aceptado la llamada. ¿Puedo ayudarle en algo más?",
    "Je n'ai pas pu vous mettre en relation : l'appel n'a pas été accepté. Puis-je vous aider autrement ?",
    "Non ho potuto metterla in contatto: la chiamata non è stata accettata. Posso aiutarla in altro modo?",
    "Não consegui transferir a chamada: foi recusada. Posso ajudar em mais alguma coisa?",
    "Ik kon u niet doorverbinden: het gesprek werd niet aangenomen. Kan ik u nog ergens anders mee helpen?",
    "आपकी कॉल नहीं जोड़ी जा सकी: कॉल स्वीकार नहीं की गई। क्या आपकी कोई और सहायता की जा सकती है?",
    "لم أتمكن من تحويل مكالمتك: رُفضت المكالمة. هل يمكنني مساعدتك في شيء آخر؟",
    "Jeg kunne ikke sette deg over: anropet ble avvist. Kan jeg hjelpe deg med noe annet?",
];
const TRANSFER_UNREACHABLE: Texts = [
    "I could not connect you: the destination cannot be reached. Can I help you with something else?",
    "Ich konnte Sie nicht verbinden: Der Anschluss ist nicht erreichbar. Kann ich sonst noch etwas für Sie tun?",
    "No he podido ponerle en contacto: el destino no está disponible. ¿Puedo ayudarle en algo más?",
    "Je n'ai pas pu vous mettre en relation : votre correspondant est injoignable. Puis-je vous aider autrement ?",
    "Non ho potuto metterla in contatto: il numero non è raggiungibile. Posso aiutarla in altro modo?",
    "Não consegui transferir a chamada: o destino está indisponível. Posso ajudar em mais alguma coisa?",
    "Ik kon u niet doorverbinden: het toestel is niet bereikbaar. Kan ik u nog ergens anders mee helpen?",
    "आपकी कॉल नहीं जोड़ी जा सकी: वहाँ संपर्क नहीं हो पा रहा है। क्या आपकी कोई और सहायता की जा सकती है?",
    "لم أتمكن من تحويل مكالمتك: لا يمكن الاتصال بالجهة المطلوبة. هل يمكنني مساعدتك في شيء آخر؟",
    "Jeg kunne ikke sette deg over: mottakeren kan ikke nås. Kan jeg hjelpe deg med noe annet?",
];
const ENTER_PIN: Texts = [
    "Please enter your PIN on the keypad of your telephone.",
    "Bitte geben Sie Ihre PIN über die Telefontasten ein.",
    "Marque su PIN con las teclas del teléfono, por favor.",
    "Veuillez saisir votre code PIN sur le clavier de votre téléphone.",
    "Digiti il suo PIN sulla tastiera del telefono, per favore.",
    "Por favor, digite o seu PIN no teclado do telefone.",
    "Toets alstublieft uw pincode in op uw telefoon.",
    "कृपया अपने फ़ोन के कीपैड से अपना पिन दर्ज कीजिए।",
    "يُرجى إدخال رقمك السري باستخدام مفاتيح الهاتف.",
    "Vennligst tast inn PIN-koden din på telefonen.",
];
const END_WITH_HASH: Texts = [
    "Finish with the hash key.",
    "Schließen Sie mit der Rautetaste ab.",
    "Termine con la tecla almohadilla.",
    "Terminez par la touche dièse.",
    "Termini con il tasto cancelletto.",
    "Termine com a tecla cardinal, também chamada jogo da velha.",
    "Sluit af met het hekje.",
    "अंत में हैश बटन दबाइए।",
    "ثم يُرجى الضغط على مفتاح المربع.",
    "Avslutt med firkanttasten.",
];
const END_WITH_STAR: Texts = [
    "Finish with the star key.",
    "Schließen Sie mit der Sterntaste ab.",
    "Termine con la tecla asterisco.",
    "Terminez par la touche étoile.",
    "Termini con il tasto asterisco.",
    "Termine com a tecla asterisco.",
    "Sluit af met het sterretje.",
    "अंत में स्टार बटन दबाइए।",
    "ثم يُرجى الضغط على مفتاح النجمة.",
    "Avslutt med stjernetasten.",
];
const CONNECTING: Texts = [
    "I am connecting you now.",
    "Ich verbinde Sie jetzt.",
    "Le pongo en contacto ahora.",
    "Je vous mets en relation.",
    "La metto in contatto ora.",
    "Vou transferir a chamada agora.",
    "Ik verbind u nu door.",
    "आपकी कॉल अब जोड़ी जा रही है।",
    "سأقوم بتحويل مكالمتك الآن.",
    "Jeg setter deg over nå.",
];
const GOODBYE: Texts = [
    "Goodbye.",
    "Auf Wiederhören.",
    "Adiós.",
    "Au revoir.",
    "Arrivederci.",
    "Até logo.",
    "Tot ziens.",
    "नमस्कार।",
    "مع السلامة.",
    "Ha det bra.",
];
const DONE: Texts = [
    "That is done.",
    "Das ist erledigt.",
    "Ya está hecho.",
    "C'est fait.",
    "È stato fatto.",
    "Está feito.",
    "Dat is geregeld.",
    "यह हो गया है।",
    "تم ذلك.",
    "Det er gjort.",
];
const HELLO: Texts = [
    "Hello. How can I help you?",
    "Guten Tag. Wie kann ich Ihnen helfen?",
    "Hola. ¿En qué puedo ayudarle?",
    "Bonjour. Comment puis-je vous aider ?",
    "Buongiorno. Come posso aiutarla?",
    "Olá. Em que posso ajudar?",
    "Goedendag. Waarmee kan ik u helpen?",
    "नमस्ते। आपकी क्या सहायता की जा सकती है?",
    "مرحبًا. كيف يمكنني مساعدتك؟",
    "Hei. Hva kan jeg hjelpe deg med?",
];
const NOT_UNDERSTOOD: Texts = [
    "Sorry, I did not understand that.",
    "Entschuldigung, das habe ich nicht verstanden.",
    "Perdone, no le he entendido.",
    "Excusez-moi, je n'ai pas compris.",
    "Mi scusi, non ho capito.",
    "Desculpe, não compreendi.",
    "Sorry, dat heb ik niet verstaan.",
    "क्षमा करें, यह समझ में नहीं आया।",
    "عذرًا، لم أفهم ذلك.",
    "Beklager, det forstod jeg ikke.",
];
const DID_NOT_WORK: Texts = [
    "Sorry, that did not work.",
    "Entschuldigung, das hat leider nicht funktioniert.",
    "Perdone, eso no ha funcionado.",
    "Excusez-moi, cela n'a pas fonctionné.",
    "Mi scusi, non ha funzionato.",
    "Desculpe, isso não funcionou.",
    "Sorry, dat is niet gelukt.",
    "क्षमा करें, यह नहीं हो सका।",
    "عذرًا، لم ينجح ذلك.",
    "Beklager, det gikk ikke.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A line that was copied and not translated.
    #[test]
    fn each_sentence_is_another_in_each_language() {
        for sentence in Sentence::ALL {
            let texts: BTreeSet<&str> = Language::ALL.into_iter().map(|language| sentence.text(language)).collect();
            assert_eq!(texts.len(), Language::ALL.len(), "{sentence:?}");
        }
        for language in Language::ALL {
            let texts: BTreeSet<&str> = Sentence::ALL.into_iter().map(|sentence| sentence.text(language)).collect();
            assert_eq!(texts.len(), Sentence::ALL.len(), "{language:?}");
        }
    }

    #[test]
    fn each_is_written_in_the_letters_of_its_language_and_ends_as_a_sentence() {
        for (sentence, language) in
            Sentence::ALL.into_iter().flat_map(|sentence| Language::ALL.map(|language| (sentence, language)))
        {
            let text = sentence.text(language);
            let is_of = |c: char| match language {
                Language::Hindi => ('\u{900}'..='\u{97f}').contains(&c),
                Language::Arabic => ('\u{600}'..='\u{6ff}').contains(&c),
                _ => c.is_alphabetic() && c < '\u{250}',
            };
            assert!(text.chars().filter(|c| c.is_alphabetic()).all(is_of), "{text}");
            assert!(text.ends_with(['.', '?', '।', '؟']), "{text}");
        }
    }

    #[test]
    fn a_language_is_known_by_its_tag() {
        for language in Language::ALL {
            assert_eq!(Language::of(language.code()), Some(language));
        }
        assert_eq!(["pt-BR", "nb", "nn-NO", "DE-at"].map(Language::of).map(Option::unwrap), {
            use Language::{German, Norwegian, Portuguese};
            [Portuguese, Norwegian, Norwegian, German]
        });
        assert_eq!(["pl", "", "deutsch"].map(Language::of), [None; 3]);
    }

    #[test]
    fn what_is_written_is_said_in_place_of_the_engine_s_own() {
        let written = BTreeMap::from([(Sentence::AfterHold, "Da bin ich wieder.".to_owned())]);
        let sentences = Sentences { written, ..Sentences::of(Language::German) };
        assert_eq!(sentences.get(Sentence::AfterHold), "Da bin ich wieder.");
        assert_eq!(sentences.get(Sentence::Moment), "Einen Moment, bitte.");
    }

    #[test]
    fn a_model_is_told_the_name_of_the_language_that_is_configured() {
        let named =
            |tag: Option<&str>| Sentences { tag: tag.map(str::to_owned), ..Sentences::default() }.language_name();
        assert_eq!(named(None), None);
        for (tag, name) in [("de", "German"), ("pt-br", "Portuguese (pt-br)"), ("pl", "the language with the tag pl")] {
            assert_eq!(named(Some(tag)).as_deref(), Some(name));
        }
    }
}
