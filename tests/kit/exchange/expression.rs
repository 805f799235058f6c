//! `${…}` and `$[…]` of the dialplan.

/// Where variables and functions come from.
pub trait Values {
    fn variable(&self, name: &str) -> Option<String>;
    /// The value of a function; `None`: there is no such function, or it has none here.
    fn function(&self, name: &str, arguments: &str) -> Option<String>;
}

/// The text with everything in it filled in.
pub fn substitute(text: &str, values: &dyn Values) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let opened = &rest[at + 1..];
        let (open, close) = match opened.bytes().next() {
            Some(b'{') => ('{', '}'),
            Some(b'[') => ('[', ']'),
            _ => {
                out.push('$');
                rest = opened;
                continue;
            }
        };
        let end = closing(opened, open, close).unwrap_or_else(|| panic!("{text}: {close} is missing"));
        let inner = substitute(&opened[1..end], values);
        out.push_str(&if open == '{' { value(&inner, values) } else { evaluate(&inner) });
        rest = &opened[end + 1..];
    }
    out + rest
}

/// Where the bracket closes with which the text begins.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == open) - i32::from(c == close);
        (depth == 0).then_some(at)
    })
}

/// `NAME`, `NAME:offset:length`, or `FUNCTION(arguments)`.
fn value(inner: &str, values: &dyn Values) -> String {
    if let Some((name, arguments)) = inner.split_once('(') {
        let (arguments, cut) = arguments.rsplit_once(')').unwrap_or((arguments, ""));
        let value = values.function(name, arguments);
        let value = value.unwrap_or_else(|| panic!("${{{name}({arguments})}} is not emulated"));
        return part(value, cut.strip_prefix(':'));
    }
    match inner.split_once(':') {
        Some((name, cut)) => part(values.variable(name).unwrap_or_default(), Some(cut)),
        None => values.variable(inner).unwrap_or_default(),
    }
}

fn part(text: String, cut: Option<&str>) -> String {
    let Some(cut) = cut else { return text };
    let (offset, length) = cut.split_once(':').unwrap_or((cut, ""));
    let count = text.chars().count() as i64;
    let offset: i64 = offset.parse().unwrap_or(0);
    let begin = if offset < 0 { (count + offset).max(0) } else { offset.min(count) };
    let length = length.parse().unwrap_or(count - begin);
    let length = if length < 0 { (count - begin + length).max(0) } else { length };
    text.chars().skip(begin as usize).take(length as usize).collect()
}

/// Whether a condition of `GotoIf()` or `IF()` holds.
pub fn is_true(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.parse::<i64>() != Ok(0)
}

/// The value of what stands between `$[` and `]`.
pub fn evaluate(text: &str) -> String {
    let tokens = tokens(text);
    let mut parser = Parser { tokens: &tokens, at: 0 };
    let value = parser.level(0);
    assert!(parser.at == tokens.len(), "$[{text}] is not understood");
    value
}

/// From the loosest to the tightest.
const OPERATORS: [&[&str]; 5] = [&["|"], &["&"], &["=", "!=", "<", ">", "<=", ">="], &["+", "-"], &["*", "/", "%"]];

fn tokens(text: &str) -> Vec<String> {
    const SINGLE: &str = "|&=<>+-*/%()!";
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first == '"' {
            rest[1..].find('"').map_or(rest.len(), |end| end + 2)
        } else if ["!=", "<=", ">="].iter().any(|two| rest.starts_with(two)) {
            2
        } else if SINGLE.contains(first) {
            1
        } else {
            rest.find(|c: char| c.is_whitespace() || c == '"' || SINGLE.contains(c)).unwrap_or(rest.len())
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    tokens
}

struct Parser<'a> {
    tokens: &'a [String],
    at: usize,
}

impl Parser<'_> {
    fn level(&mut self, level: usize) -> String {
        let Some(operators) = OPERATORS.get(level) else { return self.operand() };
        let mut left = self.level(level + 1);
        while let Some(operator) = self.tokens.get(self.at).filter(|token| operators.contains(&token.as_str())) {
            self.at += 1;
            let right = self.level(level + 1);
            left = apply(operator, &left, &right);
        }
        left
    }

    fn operand(&mut self) -> String {
        let Some(token) = self.tokens.get(self.at) else { return String::new() };
        self.at += 1;
        match token.as_str() {
            "(" => {
                let inner = self.level(0);
                self.at += 1;
                inner
            }
            "!" => u8::from(!is_true(&self.operand())).to_string(),
            "-" => apply("-", "0", &self.operand()),
            _ => token.clone(),
        }
    }
}

fn apply(operator: &str, left: &str, right: &str) -> String {
    let numbers = left.parse::<i64>().ok().zip(right.parse::<i64>().ok());
    let compared = numbers.map_or_else(|| left.cmp(right), |(left, right)| left.cmp(&right));
    let holds = |holds: bool| u8::from(holds).to_string();
    match operator {
        "|" => {
            if is_true(left) && left != "\"\"" {
                left.to_owned()
            } else {
                right.to_owned()
            }
        }
        "&" => {
            if is_true(left) && is_true(right) {
                left.to_owned()
            } else {
                "0".to_owned()
            }
        }
        "=" => holds(compared.is_eq()),
        "!=" => holds(compared.is_ne()),
        "<" => holds(compared.is_lt()),
        ">" => holds(compared.is_gt()),
        "<=" => holds(compared.is_le()),
        ">=" => holds(compared.is_ge()),
        _ => {
            let (left, right) = numbers.unwrap_or_else(|| panic!("{left} {operator} {right}: numbers are needed"));
            let result = match operator {
                "+" => left.checked_add(right),
                "-" => left.checked_sub(right),
                "*" => left.checked_mul(right),
                "/" => left.checked_div(right),
                _ => left.checked_rem(right),
            };
            result.unwrap_or_default().to_string()
        }
    }
}
