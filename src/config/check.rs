//! The tree against the schema: every violation at once, in an operator's words.

use super::{
    problem::{Path, Report, Step, nearest, suggest},
    schema::CompiledSchema,
    tree::{Kind, Node, drop_nulls},
    values,
};
use jsonschema::{
    JsonType, ValidationError,
    error::{TypeKind, ValidationErrorKind},
    paths::LocationSegment,
};
use serde_json::Value;

/// Reports what the schema refuses and marks it [`Kind::Broken`].
pub(super) fn check(root: &mut Node, compiled: &CompiledSchema, report: &mut Report) {
    let schema = &compiled.schema;
    let validator = match &compiled.validator {
        Ok(validator) => validator,
        Err(error) => {
            let message = format!("the schema of this build is broken: {error}");
            return report.add(0, &Path::default(), message, None);
        }
    };
    // A key without a value is not written, but it may be misspelt all the same.
    let mut faults: Vec<Fault> =
        validator.iter_errors(&root.json(true)).flat_map(|error| Explainer { root, schema }.names(&error)).collect();
    faults.retain(|fault| root.at(&fault.path).is_some_and(Node::is_null));
    faults.iter_mut().for_each(|fault| fault.line = Some(root.line_of(&fault.path)));
    drop_nulls(root, &Path::default());
    // Of what is still there, more is told below.
    faults.retain(|fault| root.at(&fault.path).is_none());
    let before = root.json(true);
    let wanted: Vec<Path> = validator.iter_errors(&before).flat_map(|error| texts_wanted(&error, root)).collect();
    wanted.iter().for_each(|path| read_as_text(root, path));

    let value = root.json(true);
    faults.extend(validator.iter_errors(&value).flat_map(|error| Explainer { root, schema }.explain(&error)));
    drop_consequences(&mut faults);
    faults.iter().filter_map(|fault| fault.meant.as_ref()).for_each(|meant| report.settle(meant));
    for fault in &faults {
        report.add(
            fault.line.unwrap_or_else(|| root.line_of(&fault.path)),
            &fault.path,
            &*fault.message,
            fault.hint.clone(),
        );
    }
    for fault in faults.into_iter().filter(|fault| fault.breaks) {
        if let Some(node) = root.at_mut(&fault.path) {
            node.kind = Kind::Broken;
        }
    }
}

/// Variables' values that look like something else (a password of digits) where the schema asks
/// for text.
fn texts_wanted(error: &ValidationError, root: &Node) -> Vec<Path> {
    match error.kind() {
        ValidationErrorKind::Type { kind } if expects(kind, JsonType::String) => {
            let path = path_of(error, root);
            let readable = |node: &Node| matches!(&node.kind, Kind::Scalar { text: Some(_), from_env: true, .. });
            if root.at(&path).is_some_and(readable) { vec![path] } else { Vec::new() }
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            context.iter().flatten().flat_map(|error| texts_wanted(error, root)).collect()
        }
        _ => Vec::new(),
    }
}

fn read_as_text(root: &mut Node, path: &Path) {
    if let Some(Kind::Scalar { value, text, .. }) = root.at_mut(path).map(|node| &mut node.kind)
        && let Some(text) = text.take()
    {
        *value = Value::String(text);
    }
}

struct Fault {
    path: Path,
    message: String,
    hint: Option<String>,
    /// Of what is not in the tree any more.
    line: Option<usize>,
    /// The key that this unknown one is taken for.
    meant: Option<Path>,
    /// What stands at `path` cannot be read further. Not so where only its name is wrong.
    breaks: bool,
}

impl Fault {
    fn new(path: Path, message: impl Into<String>, hint: Option<String>) -> Self {
        Self { path, message: message.into(), hint, line: None, meant: None, breaks: true }
    }
}

/// Inside a value that is wrong as a whole nothing more is wrong, and a key that is misspelt is not
/// missing.
fn drop_consequences(faults: &mut Vec<Fault>) {
    let wrong: Vec<Path> = faults.iter().filter(|fault| fault.breaks).map(|fault| fault.path.clone()).collect();
    let meant: Vec<Path> = faults.iter().filter_map(|fault| fault.meant.clone()).collect();
    faults.retain(|Fault { path, .. }| {
        !meant.contains(path) && !wrong.iter().any(|wrong| path != wrong && path.starts_with(wrong))
    });
}

struct Explainer<'a> {
    root: &'a Node,
    schema: &'a Value,
}

impl Explainer<'_> {
    /// Keys alone.
    fn names(&self, error: &ValidationError) -> Vec<Fault> {
        use ValidationErrorKind::{AdditionalProperties, UnevaluatedProperties};
        let is_name = matches!(error.kind(), AdditionalProperties { .. } | UnevaluatedProperties { .. });
        if is_name { self.explain(error) } else { Vec::new() }
    }

    fn explain(&self, error: &ValidationError) -> Vec<Fault> {
        use ValidationErrorKind as K;

        let path = path_of(error, self.root);
        let Some(node) = self.root.at(&path) else { return Vec::new() };
        let fault = |message: String, hint: Option<String>| vec![Fault::new(path.clone(), message, hint)];
        match error.kind() {
            _ if matches!(node.kind, Kind::Broken) => Vec::new(),
            K::AnyOf { context } | K::OneOfNotValid { context } => self.explain_choice(node, &path, context),
            K::AdditionalProperties { unexpected } | K::UnevaluatedProperties { unexpected } => {
                let known = self.known_keys(error);
                unexpected.iter().map(|key| self.unknown_key(&path, key, &known)).collect()
            }
            K::Required { property } => {
                let key = property.as_str().unwrap_or_default();
                let choices = self.choices(error, key);
                let hint = (!choices.is_empty()).then(|| suggest("", &choices)).flatten();
                vec![Fault::new(path.key(key), "required, but missing", hint)]
            }
            K::PropertyNames { error: inner } => {
                let name = inner.instance();
                let name = name.as_str().unwrap_or_default();
                let title = self.beside(inner, "title").and_then(Value::as_str);
                let hint = title.unwrap_or("1 to 64 letters, digits, \"_\" and \"-\"");
                let fault = Fault::new(path.key(name), "this cannot be a name", Some(hint.into()));
                vec![Fault { breaks: false, ..fault }]
            }
            K::Type { kind } => {
                let message = format!("expected {}, found {}", self.expected(error, kind), found(node));
                fault(message, self.type_hint(error, kind, node))
            }
            K::Enum { options } => self.not_listed(node, &path, options.as_array().map_or(&[], Vec::as_slice)),
            K::Constant { expected_value } => self.not_listed(node, &path, std::slice::from_ref(expected_value)),
            K::Pattern { .. } => {
                let title = self.beside(error, "title").and_then(Value::as_str);
                let hint = title.map_or_else(|| masked(error), |title| format!("expected {title}"));
                fault(format!("{} is not right", shown(node)), Some(hint))
            }
            K::Minimum { limit } => fault(format!("has to be at least {limit}"), None),
            K::Maximum { limit } => fault(format!("has to be at most {limit}"), None),
            K::ExclusiveMinimum { limit } => fault(format!("has to be more than {limit}"), None),
            K::ExclusiveMaximum { limit } => fault(format!("has to be less than {limit}"), None),
            K::MinLength { limit: 1 } | K::MinItems { limit: 1 } => fault("must not be empty".into(), None),
            K::MinLength { limit } => fault(format!("has to have at least {limit} characters"), None),
            K::MaxLength { limit } => fault(format!("has to have at most {limit} characters"), None),
            K::MaxItems { limit } => fault(format!("has to have at most {limit} entries"), None),
            K::MinProperties { .. } | K::MaxProperties { .. } if chosen(&path).is_some() => {
                let what = chosen(&path).unwrap_or_default();
                fault(format!("expected exactly one key, the kind of {what}"), suggest("", &self.known_keys(error)))
            }
            K::MinProperties { .. } => fault("at least one entry is required".into(), None),
            _ => fault(masked(error), None),
        }
    }

    /// A value that may have one of several shapes: the errors of the shape it comes nearest to.
    fn explain_choice(&self, node: &Node, path: &Path, branches: &[Vec<ValidationError<'static>>]) -> Vec<Fault> {
        if node.has_broken() {
            return Vec::new();
        }
        let wrong_type = |error: &ValidationError| {
            matches!(error.kind(), ValidationErrorKind::Type { .. }) && path_of(error, self.root) == *path
        };
        let fitting: Vec<_> = branches.iter().filter(|branch| !branch.iter().any(wrong_type)).collect();
        let others: Vec<_> = branches.iter().flatten().filter(|error| wrong_type(error)).collect();
        if let Some(key) = written(node).filter(|text| others.iter().any(|error| self.known_keys(error).contains(text)))
        {
            return vec![Fault::new(path.clone(), format!("{key:?} is a key here"), Some(format!("write \"{key}:\"")))];
        }
        if let Some(fault) = self.several_in_one(node, path, &fitting) {
            return vec![fault];
        }
        // Nearest is the shape that is named (`type: server_vad`), then the one that has these keys;
        // what is wrong below them counts less.
        let distance = |branch: &&&Vec<ValidationError<'static>>| {
            let other_name = branch.iter().any(is_constant);
            (other_name, branch.iter().filter(|error| path_of(error, self.root) == *path).count(), branch.len())
        };
        let Some(nearest) = fitting.iter().min_by_key(distance) else {
            let mut wanted: Vec<String> = others.into_iter().filter_map(type_of).collect();
            wanted.sort();
            wanted.dedup();
            let wanted = self.title(path).unwrap_or(wanted.join(" or "));
            return vec![Fault::new(path.clone(), format!("expected {wanted}, found {}", found(node)), None)];
        };
        // Each shape allows other values in the same place: all of them are the choices.
        let lists = |branch: &&Vec<ValidationError<'static>>| {
            branch.iter().find(|error| !listed(error).is_empty()).map(|error| path_of(error, self.root))
        };
        let first = lists(nearest);
        if let Some(place) = first.filter(|first| fitting.iter().all(|branch| lists(branch).as_ref() == Some(first))) {
            let options: Vec<Value> = fitting.iter().flat_map(|branch| branch.iter()).flat_map(listed).collect();
            let node = self.root.at(&place).unwrap_or(node);
            return self.not_listed(node, &place, &options);
        }
        // Each shape has other keys: all of them are the known ones.
        let strange: Vec<_> = fitting.iter().filter_map(|branch| branch.iter().find_map(unexpected)).collect();
        if let [(first, keys), ..] = strange.as_slice()
            && strange.len() == fitting.len()
            && strange
                .iter()
                .all(|(error, others)| others == keys && path_of(error, self.root) == path_of(first, self.root))
        {
            let place = path_of(first, self.root);
            let known: Vec<&str> = strange.iter().flat_map(|(error, _)| self.known_keys(error)).collect();
            return keys.iter().map(|key| self.unknown_key(&place, key, &known)).collect();
        }
        let mut faults: Vec<Fault> = nearest.iter().flat_map(|error| self.explain(error)).collect();
        self.list_choices(&mut faults, path, &fitting);
        if !nearest.iter().any(is_constant) {
            faults.iter_mut().for_each(|fault| self.name_owner(fault, path, &fitting));
        }
        faults
    }

    /// Keys of which each makes a shape of its own, in one place: `- say: hi` with `listen:` below it.
    fn several_in_one(&self, node: &Node, path: &Path, branches: &[&Vec<ValidationError<'static>>]) -> Option<Fault> {
        let Kind::Map(entries) = &node.kind else { return None };
        let mut shapes = Vec::new();
        for branch in branches {
            let (error, _) =
                branch.iter().find_map(unexpected).filter(|(error, _)| path_of(error, self.root) == *path)?;
            let [key] = self.known_keys(error)[..] else { return None };
            shapes.push(key);
        }
        if entries.iter().filter(|entry| shapes.contains(&entry.key.as_str())).count() < 2 {
            return None;
        }
        let (message, hint) = match path.steps().last() {
            Some(Step::Index(_)) => ("one step per list item", "begin another with \"- \""),
            _ => ("only one of these keys may stand here", "take the others out"),
        };
        Some(Fault::new(path.clone(), message, Some(hint.into())))
    }

    /// Each shape allows another value of a key that none of them can do without: all of them are the choices.
    fn list_choices(&self, faults: &mut [Fault], path: &Path, branches: &[&Vec<ValidationError<'static>>]) {
        for fault in faults.iter_mut().filter(|fault| fault.hint.is_some()) {
            let wants = |error: &&ValidationError<'static>| {
                let key = missing(error).map(|key| path_of(error, self.root).key(key));
                key.is_some_and(|key| key == fault.path && key.starts_with(path))
            };
            let wanting = branches.iter().flat_map(|branch| branch.iter()).filter(wants);
            let choices: Vec<&str> =
                wanting.flat_map(|error| self.choices(error, missing(error).unwrap_or_default())).collect();
            if !choices.is_empty() {
                fault.hint = suggest("", &choices);
            }
        }
    }

    /// The values that this key beside the error may have, where there are few.
    fn choices(&self, error: &ValidationError, key: &str) -> Vec<&str> {
        let Some(schema) = self.beside(error, "properties").and_then(|properties| properties.get(key)) else {
            return Vec::new();
        };
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        let schema = target.and_then(|target| self.schema.pointer(target)).unwrap_or(schema);
        let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        let shapes = ["oneOf", "anyOf"].into_iter().filter_map(|several| schema.get(several)?.as_array()).flatten();
        let single = shapes.chain([schema]).filter_map(|shape| shape.get("const"));
        listed.chain(single).filter_map(Value::as_str).collect()
    }

    /// An unknown key that another named shape knows: says which.
    fn name_owner(&self, fault: &mut Fault, path: &Path, branches: &[&Vec<ValidationError<'static>>]) {
        let (Some(Step::Key(key)), 1) = (fault.path.steps().last(), fault.path.steps().len() - path.steps().len())
        else {
            return;
        };
        for error in branches.iter().flat_map(|branch| branch.iter()).filter(|error| is_constant(error)) {
            // …/properties/type/const
            let shape =
                error.schema_path().as_str().rsplitn(4, '/').last().and_then(|shape| self.schema.pointer(shape));
            let knows = shape.and_then(|shape| shape.pointer("/properties")?.get(key)).is_some();
            if let (true, Some(Step::Key(tag)), [name]) =
                (knows, path_of(error, self.root).steps().last(), &listed(error)[..])
            {
                let name = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
                fault.hint = Some(format!("it belongs to \"{tag}: {name}\""));
                fault.meant = None;
            }
        }
    }

    fn known_keys(&self, error: &ValidationError) -> Vec<&str> {
        let properties = self.beside(error, "properties").and_then(Value::as_object);
        properties.into_iter().flatten().map(|(key, _)| key.as_str()).collect()
    }

    fn unknown_key(&self, path: &Path, key: &str, known: &[&str]) -> Fault {
        let what = chosen(path).map_or("unknown key".into(), |what| format!("unknown kind of {what}"));
        if key == "<<" {
            let hint = "YAML's merge keys are not read here: write the keys out, or give a whole section by *NAME";
            return Fault::new(path.key(key), what, Some(hint.into()));
        }
        let meant = nearest(key, known).map(|meant| path.key(meant));
        Fault { meant, ..Fault::new(path.key(key), what, suggest(key, known)) }
    }

    fn not_listed(&self, node: &Node, path: &Path, options: &[Value]) -> Vec<Fault> {
        let options: Vec<String> =
            options.iter().map(|o| o.as_str().map_or_else(|| o.to_string(), str::to_owned)).collect();
        let hint = suggest(written(node).unwrap_or_default(), &options.iter().map(String::as_str).collect::<Vec<_>>());
        vec![Fault::new(path.clone(), format!("{} is not one of the choices", shown(node)), hint)]
    }

    fn type_hint(&self, error: &ValidationError, kind: &TypeKind, node: &Node) -> Option<String> {
        let title = self.beside(error, "title").and_then(Value::as_str).unwrap_or_default();
        let hint = match &node.kind {
            // A bare number is most often half of what is wanted.
            Kind::Scalar { value: Value::Number(number), from_env: false, .. } if title.starts_with("a duration") => {
                // Hundreds are milliseconds more often than minutes.
                let hundreds = number.as_f64().is_some_and(|number| number >= 100.0);
                let shorter = if hundreds { format!("\"{number}ms\" or ") } else { String::new() };
                return Some(format!("did you mean {shorter}\"{number}s\"?"));
            }
            Kind::Scalar { value: Value::String(text), from_env: false, .. } if title.starts_with("milliseconds") => {
                return values::duration(text).map(|time| format!("did you mean {}?", time.as_millis()));
            }
            Kind::Scalar { value: Value::Number(number), from_env: false, .. } if title == "IP:PORT" => {
                return Some(format!("did you mean \"127.0.0.1:{number}\"?"));
            }
            Kind::Scalar { text: Some(text), value, from_env: false }
                if !value.is_null() && expects(kind, JsonType::String) =>
            {
                let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
                let quotes_help = jsonschema::is_valid(self.schema.pointer(parent)?, &Value::String(text.clone()));
                quotes_help.then_some("YAML reads it so unless it is in quotes")?
            }
            Kind::Scalar { .. } if expects(kind, JsonType::Array) => "write [one, two], or each on a line after \"- \"",
            Kind::Scalar { value: Value::String(text), from_env: false, .. }
                if expects(kind, JsonType::Boolean) && ["yes", "no", "on", "off"].contains(&text.as_str()) =>
            {
                "write true or false"
            }
            _ => return None,
        };
        Some(hint.into())
    }

    /// What another keyword says in the schema that the error is about.
    fn beside(&self, error: &ValidationError, keyword: &str) -> Option<&Value> {
        let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.schema.pointer(parent)?.get(keyword)
    }

    fn expected(&self, error: &ValidationError, kind: &TypeKind) -> String {
        match self.beside(error, "title").and_then(Value::as_str) {
            Some(title) => title.to_owned(),
            None => type_words(kind),
        }
    }

    /// The title of the schema at `path`, found along the instance rather than the error.
    fn title(&self, path: &Path) -> Option<String> {
        let mut schema = self.schema;
        for step in path.steps() {
            schema = match step {
                Step::Key(key) => schema
                    .get("properties")
                    .and_then(|properties| properties.get(key))
                    .or_else(|| schema.get("additionalProperties"))?,
                Step::Index(_) => schema.get("items")?,
            };
        }
        schema.get("title")?.as_str().map(str::to_owned)
    }
}

/// What is chosen by the one key of an entry.
fn chosen(path: &Path) -> Option<&'static str> {
    let [Step::Key(section), Step::Key(_)] = path.steps() else { return None };
    match section.as_str() {
        "providers" => Some("provider"),
        "stt" => Some("listener"),
        "llm" => Some("model"),
        "voices" => Some("voice"),
        _ => None,
    }
}

/// A text as the operator wrote it; never a variable's.
fn written(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Scalar { value: Value::String(text), from_env: false, .. } => Some(text),
        _ => None,
    }
}

fn listed(error: &ValidationError<'static>) -> Vec<Value> {
    match error.kind() {
        ValidationErrorKind::Enum { options } => options.as_array().cloned().unwrap_or_default(),
        ValidationErrorKind::Constant { expected_value } => vec![(**expected_value).clone()],
        _ => Vec::new(),
    }
}

/// The key that is required and is not there.
fn missing<'e>(error: &'e ValidationError<'static>) -> Option<&'e str> {
    match error.kind() {
        ValidationErrorKind::Required { property } => property.as_str(),
        _ => None,
    }
}

fn is_constant(error: &ValidationError<'static>) -> bool {
    matches!(error.kind(), ValidationErrorKind::Constant { .. })
}

fn unexpected<'e>(error: &'e ValidationError<'static>) -> Option<(&'e ValidationError<'static>, &'e Vec<String>)> {
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => Some((error, unexpected)),
        _ => None,
    }
}

fn type_of(error: &ValidationError<'static>) -> Option<String> {
    match error.kind() {
        ValidationErrorKind::Type { kind } => Some(type_words(kind)).filter(|words| !words.is_empty()),
        _ => None,
    }
}

/// The library takes every key of digits for an index; what it is, the file says.
fn path_of(error: &ValidationError, root: &Node) -> Path {
    let mut node = Some(root);
    error.instance_path().segments().fold(Path::default(), |path, segment| {
        let step = match (segment, node.map(|node| &node.kind)) {
            (LocationSegment::Property(key), _) => Step::Key(key.to_string()),
            (LocationSegment::Index(index), Some(Kind::Map(entries))) => {
                let key = entries.iter().map(|entry| &entry.key).find(|key| key.parse() == Ok(index));
                Step::Key(key.cloned().unwrap_or_default())
            }
            (LocationSegment::Index(index), _) => Step::Index(index),
        };
        node = node.and_then(|node| node.child(&step));
        match &step {
            Step::Key(key) => path.key(key),
            Step::Index(index) => path.index(*index),
        }
    })
}

/// The library's own words, without the value.
fn masked(error: &ValidationError) -> String {
    error.masked().to_string()
}

/// A short value as the operator wrote it; never a variable's.
fn shown(node: &Node) -> String {
    const SHOWN_MAX: usize = 60;

    match &node.kind {
        Kind::Scalar { from_env: true, .. } => "(a variable's value)".into(),
        Kind::Scalar { value, .. } => {
            let text = value.as_str().map_or_else(|| value.to_string(), |text| format!("{text:?}"));
            if text.chars().count() <= SHOWN_MAX { text } else { "the text".into() }
        }
        _ => found(node).into(),
    }
}

fn found(node: &Node) -> &'static str {
    match &node.kind {
        Kind::Scalar { value, from_env, .. } => match (value, from_env) {
            (Value::String(text), true) if text.is_empty() => "an empty variable",
            (Value::String(_), _) => "text",
            (Value::Bool(_), _) => "true or false",
            (Value::Number(number), _) if number.is_f64() => "a number with decimals",
            (Value::Number(_), _) => "a number",
            _ => "nothing",
        },
        Kind::List(_) => "a list",
        Kind::Map(_) => "keys and values",
        Kind::Broken => "nothing",
    }
}

fn expects(kind: &TypeKind, wanted: JsonType) -> bool {
    match kind {
        TypeKind::Single(single) => *single == wanted,
        TypeKind::Multiple(several) => several.contains(wanted),
    }
}

fn type_words(kind: &TypeKind) -> String {
    let words = [
        (JsonType::String, "text"),
        (JsonType::Integer, "a whole number"),
        (JsonType::Number, "a number"),
        (JsonType::Boolean, "true or false"),
        (JsonType::Array, "a list"),
        (JsonType::Object, "keys and values"),
    ];
    let named: Vec<&str> = words.iter().filter(|(single, _)| expects(kind, *single)).map(|(_, words)| *words).collect();
    named.join(" or ")
}
