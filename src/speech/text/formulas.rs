//! Formulas in LaTeX, which models write now and then: their signs are those that voices read, and what only sets them in type is taken
//! away.

use super::pattern;
use regex::{Captures, Regex};
use std::{borrow::Cow, sync::LazyLock};

/// Commands, and the sign that says the same.
const SIGNS: [(&str, &str); 13] = [
    ("times", "×"),
    ("cdot", "×"),
    ("div", "÷"),
    ("pm", "±"),
    ("approx", "≈"),
    ("leq", "≤"),
    ("le", "≤"),
    ("geq", "≥"),
    ("ge", "≥"),
    ("neq", "≠"),
    ("ne", "≠"),
    ("%", "%"),
    ("$", "$"),
];

/// Without LaTeX. A backslash that begins none of its commands stays, as in a path of Windows.
pub(super) fn plain(text: Cow<'_, str>) -> Cow<'_, str> {
    static FRACTION: LazyLock<Regex> = LazyLock::new(|| pattern(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}"));
    static ROOT: LazyLock<Regex> = LazyLock::new(|| pattern(r"\\sqrt\{([^{}]*)\}"));
    static WORDS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\\(?:text|mathrm|mathbf|textbf|boxed)\{([^{}]*)\}"));
    static SIGN: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"\\(times|cdot|div|pm|approx|leq|le|geq|ge|neq|ne)\b|\\([%$])"));
    static AROUND: LazyLock<Regex> = LazyLock::new(|| pattern(r"\\[()\[\]]"));
    static DOLLARS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\$+([^$]*\\[a-z][^$]*)\$+"));
    if !text.contains('\\') {
        return text;
    }
    let text = DOLLARS.replace_all(&text, "$1");
    let text = WORDS.replace_all(&text, "$1");
    let text = FRACTION.replace_all(&text, "$1/$2");
    let text = ROOT.replace_all(&text, "√$1");
    let sign = |found: &Captures<'_>| {
        let command = found.get(1).or(found.get(2)).map_or("", |command| command.as_str());
        SIGNS.iter().find(|(name, _)| *name == command).map_or("", |(_, sign)| sign)
    };
    let text = SIGN.replace_all(&text, sign);
    AROUND.replace_all(&text, "").into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_its_figures_and_signs() {
        for (written, said) in [
            (r"That is \(\frac{1}{2} \times 30\) euros.", "That is 1/2 × 30 euros."),
            (r"\[ \sqrt{16} \approx 4 \text{ metres} \]", " √16 ≈ 4  metres "),
            (r"It costs $\frac{3}{4}$ of $20.", "It costs 3/4 of $20."),
            (r"50\% off, \$5 at least", "50% off, $5 at least"),
            (r"C:\Users\ada and 5 $ or 6 $", r"C:\Users\ada and 5 $ or 6 $"),
        ] {
            assert_eq!(plain(written.into()), said, "{written}");
        }
    }
}
