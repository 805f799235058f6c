//! The words of each language.

/// Language of a voice that figures and signs are written out for. It is not the `Language` of sentences, in which offhook speaks
/// itself: months and signs are written here for seven languages, and dates are read in another order in the United States.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoiceLanguage {
    /// Of the United States, where the month of a date comes first.
    AmericanEnglish,
    English,
    German,
    French,
    Spanish,
    Italian,
    Dutch,
    Portuguese,
}

impl VoiceLanguage {
    /// Of a voice as espeak-ng, Piper or a language tag name it: `en-us+f3`, `de_DE-thorsten-medium`, `pt-BR`.
    pub fn of(name: &str) -> Option<Self> {
        let name = name.to_lowercase();
        let mut parts = name.split(|c: char| !c.is_ascii_alphabetic());
        Some(match (parts.next()?, parts.next()) {
            ("en", Some("us")) => Self::AmericanEnglish,
            ("en", _) => Self::English,
            ("de", _) => Self::German,
            ("fr", _) => Self::French,
            ("es", _) => Self::Spanish,
            ("it", _) => Self::Italian,
            ("nl", _) => Self::Dutch,
            ("pt", _) => Self::Portuguese,
            _ => return None,
        })
    }

    pub(super) const fn is_english(self) -> bool {
        matches!(self, Self::AmericanEnglish | Self::English)
    }

    pub(super) const fn months(self) -> [&'static str; 12] {
        match self {
            Self::AmericanEnglish | Self::English => [
                "January",
                "February",
                "March",
                "April",
                "May",
                "June",
                "July",
                "August",
                "September",
                "October",
                "November",
                "December",
            ],
            Self::German => [
                "Januar",
                "Februar",
                "März",
                "April",
                "Mai",
                "Juni",
                "Juli",
                "August",
                "September",
                "Oktober",
                "November",
                "Dezember",
            ],
            Self::French => [
                "janvier",
                "février",
                "mars",
                "avril",
                "mai",
                "juin",
                "juillet",
                "août",
                "septembre",
                "octobre",
                "novembre",
                "décembre",
            ],
            Self::Spanish => [
                "enero",
                "febrero",
                "marzo",
                "abril",
                "mayo",
                "junio",
                "julio",
                "agosto",
                "septiembre",
                "octubre",
                "noviembre",
                "diciembre",
            ],
            Self::Italian => [
                "gennaio",
                "febbraio",
                "marzo",
                "aprile",
                "maggio",
                "giugno",
                "luglio",
                "agosto",
                "settembre",
                "ottobre",
                "novembre",
                "dicembre",
            ],
            Self::Dutch => [
                "januari",
                "februari",
                "maart",
                "april",
                "mei",
                "juni",
                "juli",
                "augustus",
                "september",
                "oktober",
                "november",
                "december",
            ],
            Self::Portuguese => [
                "janeiro",
                "fevereiro",
                "março",
                "abril",
                "maio",
                "junho",
                "julho",
                "agosto",
                "setembro",
                "outubro",
                "novembro",
                "dezembro",
            ],
        }
    }

    pub(super) const fn signs(self) -> Signs {
        let [at, dot, dash, underscore, plus, slash] = match self {
            Self::AmericanEnglish | Self::English => ["at", "dot", "dash", "underscore", "plus", "slash"],
            Self::German => ["ät", "Punkt", "Bindestrich", "Unterstrich", "plus", "Schrägstrich"],
            Self::French => ["arobase", "point", "tiret", "tiret bas", "plus", "barre oblique"],
            Self::Spanish => ["arroba", "punto", "guion", "guion bajo", "más", "barra"],
            Self::Italian => ["chiocciola", "punto", "trattino", "trattino basso", "più", "barra"],
            Self::Dutch => ["apenstaartje", "punt", "streepje", "laag streepje", "plus", "schuine streep"],
            Self::Portuguese => ["arroba", "ponto", "hífen", "sublinhado", "mais", "barra"],
        };
        Signs { at, dot, dash, underscore, plus, slash }
    }

    pub(super) const fn currency(self, currency: Currency) -> Names {
        let [one, many, cent, cents] = match (self, currency) {
            (Self::AmericanEnglish | Self::English, currency) => match currency {
                Currency::Dollar => ["1 dollar", "dollars", "1 cent", "cents"],
                Currency::Euro => ["1 euro", "euros", "1 cent", "cents"],
                Currency::Pound => ["1 pound", "pounds", "1 penny", "pence"],
                Currency::Franc => ["1 franc", "francs", "1 centime", "centimes"],
            },
            (Self::German, currency) => match currency {
                Currency::Dollar => ["ein Dollar", "Dollar", "ein Cent", "Cent"],
                Currency::Euro => ["ein Euro", "Euro", "ein Cent", "Cent"],
                Currency::Pound => ["ein Pfund", "Pfund", "ein Penny", "Pence"],
                Currency::Franc => ["ein Franken", "Franken", "ein Rappen", "Rappen"],
            },
            (Self::French, currency) => match currency {
                Currency::Dollar => ["un dollar", "dollars", "un cent", "cents"],
                Currency::Euro => ["un euro", "euros", "un centime", "centimes"],
                Currency::Pound => ["une livre", "livres", "un penny", "pence"],
                Currency::Franc => ["un franc", "francs", "un centime", "centimes"],
            },
            (Self::Spanish, currency) => match currency {
                Currency::Dollar => ["un dólar", "dólares", "un centavo", "centavos"],
                Currency::Euro => ["un euro", "euros", "un céntimo", "céntimos"],
                Currency::Pound => ["una libra", "libras", "un penique", "peniques"],
                Currency::Franc => ["un franco", "francos", "un céntimo", "céntimos"],
            },
            (Self::Italian, currency) => match currency {
                Currency::Dollar => ["un dollaro", "dollari", "un centesimo", "centesimi"],
                Currency::Euro => ["un euro", "euro", "un centesimo", "centesimi"],
                Currency::Pound => ["una sterlina", "sterline", "un penny", "pence"],
                Currency::Franc => ["un franco", "franchi", "un centesimo", "centesimi"],
            },
            (Self::Dutch, currency) => match currency {
                Currency::Dollar => ["een dollar", "dollar", "een cent", "cent"],
                Currency::Euro => ["een euro", "euro", "een cent", "cent"],
                Currency::Pound => ["een pond", "pond", "een penny", "pence"],
                Currency::Franc => ["een frank", "frank", "een centime", "centimes"],
            },
            (Self::Portuguese, currency) => match currency {
                Currency::Dollar => ["um dólar", "dólares", "um centavo", "centavos"],
                Currency::Euro => ["um euro", "euros", "um cêntimo", "cêntimos"],
                Currency::Pound => ["uma libra", "libras", "um péni", "pence"],
                Currency::Franc => ["um franco", "francos", "um cêntimo", "cêntimos"],
            },
        };
        Names { one, many, cent, cents }
    }
}

/// The signs in addresses and numbers.
pub(super) struct Signs {
    pub at: &'static str,
    pub dot: &'static str,
    pub dash: &'static str,
    pub underscore: &'static str,
    pub plus: &'static str,
    pub slash: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Currency {
    Dollar,
    Euro,
    Pound,
    Franc,
}

/// One and many of a currency, and of its hundredth.
pub(super) struct Names {
    pub one: &'static str,
    pub many: &'static str,
    pub cent: &'static str,
    pub cents: &'static str,
}
