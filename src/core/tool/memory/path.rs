//! Paths into what a tool can see and write: `params.dishes[0].name`, `workflow.meals[+]`.

use serde_json::Value;
use std::fmt;

/// A path longer than this was not written by hand.
const PATH_BYTES_MAX: usize = 256;
/// Deeper than any sensible document; it bounds the recursion of a write.
const STEPS_MAX: usize = 16;

/// What a path begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Root {
    /// Arguments of the tool call.
    Params,
    User,
    Workflow,
    Agents,
    Flags,
    Tenant,
    /// Facts of the call.
    Call,
    /// Of the last action that had one.
    Result,
    /// When the run began, RFC 3339, UTC.
    Now,
    /// The item a transform is at.
    Item,
    /// Its place, from 0.
    Index,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    Name(String),
    /// Negative: from the end.
    Index(i64),
}

/// Where a value is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Path {
    pub root: Root,
    pub steps: Vec<Step>,
}

/// Where a value is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    pub path: Path,
    /// `[+]`: at the end of the array there.
    pub append: bool,
}

/// Which roots a path may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    #[default]
    Run,
    /// `item` and `index` as well.
    Item,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("a path is longer than {PATH_BYTES_MAX} bytes or has more than {STEPS_MAX} steps")]
    TooLong,
    #[error(
        "\"{0}\" is not a path: names of letters, digits, _ and - with dots between them, [0] for a place in an array"
    )]
    Malformed(String),
    #[error("\"{0}\" begins with nothing that can be read")]
    UnknownRoot(String),
    #[error("[+] is for the end of a path that is written")]
    AppendHere,
    #[error("{0} cannot be written")]
    ReadOnly(&'static str),
    #[error("\"{0}\" names a root; a path below it can be written")]
    RootItself(&'static str),
    #[error("a flag is a name: flags.{0}")]
    NestedFlag(String),
}

impl Root {
    const ALL: [Self; 11] = [
        Self::Params,
        Self::User,
        Self::Workflow,
        Self::Agents,
        Self::Flags,
        Self::Tenant,
        Self::Call,
        Self::Result,
        Self::Now,
        Self::Item,
        Self::Index,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Params => "params",
            Self::User => "user",
            Self::Workflow => "workflow",
            Self::Agents => "agents",
            Self::Flags => "flags",
            Self::Tenant => "tenant",
            Self::Call => "call",
            Self::Result => "result",
            Self::Now => "now",
            Self::Item => "item",
            Self::Index => "index",
        }
    }

    fn parse(name: &str, scope: Scope) -> Option<Self> {
        let root = Self::ALL.into_iter().find(|root| root.label() == name)?;
        (scope == Scope::Item || !matches!(root, Self::Item | Self::Index)).then_some(root)
    }
}

impl Path {
    pub fn new(root: Root, steps: &[&str]) -> Self {
        Self { root, steps: steps.iter().map(|name| Step::Name((*name).to_owned())).collect() }
    }

    /// A path that is read; its root has to be known.
    pub fn parse(text: &str, scope: Scope) -> Result<Self, PathError> {
        let (first, steps, append) = split(text)?;
        let root = Root::parse(&first, scope).ok_or_else(|| PathError::UnknownRoot(text.to_owned()))?;
        if append { Err(PathError::AppendHere) } else { Ok(Self { root, steps }) }
    }

    /// As [`Path::parse`], but `meals` stands for `workflow.meals`.
    pub fn parse_in_workflow(text: &str, scope: Scope) -> Result<Self, PathError> {
        match Self::parse(text, scope) {
            Err(PathError::UnknownRoot(_)) => Self::parse(&format!("workflow.{text}"), scope),
            other => other,
        }
    }

    /// `self` is `other` or inside it.
    pub fn is_within(&self, other: &Self) -> bool {
        self.root == other.root && self.steps.starts_with(&other.steps)
    }

    /// Names and places below a value that a path without a root means: `name` of an item.
    pub fn parse_steps(text: &str) -> Result<Vec<Step>, PathError> {
        Self::parse(&format!("item.{text}"), Scope::Item).map(|path| path.steps)
    }
}

impl Target {
    /// A path that is written. Without a known root it is in `workflow`; roots that are never written
    /// are refused here, `user` is for whoever writes to decide.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let (first, mut steps, append) = split(text)?;
        if first == "history" {
            return Err(PathError::ReadOnly("history"));
        }
        let root = Root::parse(&first, Scope::Run).unwrap_or_else(|| {
            steps.insert(0, Step::Name(first));
            Root::Workflow
        });
        match (root, steps.as_slice()) {
            (Root::Params | Root::Tenant | Root::Call | Root::Result | Root::Now | Root::Item | Root::Index, _) => {
                return Err(PathError::ReadOnly(root.label()));
            }
            (_, []) => return Err(PathError::RootItself(root.label())),
            (Root::Agents, [_]) => return Err(PathError::RootItself("agents.<name>")),
            (_, [Step::Index(_), ..]) => return Err(PathError::Malformed(text.to_owned())),
            (Root::Flags, [Step::Name(name), _, ..]) => return Err(PathError::NestedFlag(name.clone())),
            (Root::Flags, [Step::Name(name)]) if append => return Err(PathError::NestedFlag(name.clone())),
            _ => {}
        }
        if steps.len() > STEPS_MAX { Err(PathError::TooLong) } else { Ok(Self { path: Path { root, steps }, append }) }
    }
}

/// First name, what follows it, and whether `[+]` is at the end.
fn split(text: &str) -> Result<(String, Vec<Step>, bool), PathError> {
    if text.len() > PATH_BYTES_MAX {
        return Err(PathError::TooLong);
    }
    let malformed = || PathError::Malformed(text.to_owned());
    let (body, append) = text.strip_suffix("[+]").map_or((text, false), |body| (body, true));
    let mut steps = Vec::new();
    for piece in body.split('.') {
        let end = piece.find('[').unwrap_or(piece.len());
        let (name, mut places) = piece.split_at_checked(end).ok_or_else(malformed)?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
            return Err(malformed());
        }
        steps.push(Step::Name(name.to_owned()));
        while !places.is_empty() {
            let (place, rest) = places.strip_prefix('[').and_then(|rest| rest.split_once(']')).ok_or_else(malformed)?;
            if place == "+" {
                return Err(PathError::AppendHere);
            }
            let digits = place.strip_prefix('-').unwrap_or(place);
            // `parse` alone would take `+1`.
            if digits.is_empty() || digits.len() > 6 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(malformed());
            }
            steps.push(Step::Index(place.parse().map_err(|_| malformed())?));
            places = rest;
        }
    }
    if steps.len() > STEPS_MAX {
        return Err(PathError::TooLong);
    }
    match steps.remove(0) {
        Step::Name(first) => Ok((first, steps, append)),
        Step::Index(_) => Err(malformed()),
    }
}

/// What is at these steps below `value`.
pub fn walk<'v>(value: &'v Value, steps: &[Step]) -> Option<&'v Value> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Name(name) => value.as_object()?.get(name),
        Step::Index(place) => {
            let list = value.as_array()?;
            list.get(resolve(*place, list.len())?)
        }
    })
}

/// The place in an array of this length.
pub fn resolve(place: i64, length: usize) -> Option<usize> {
    let at = if place < 0 { i64::try_from(length).ok()?.checked_add(place)? } else { place };
    usize::try_from(at).ok().filter(|at| *at < length)
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.root.label())?;
        self.steps.iter().try_for_each(|step| match step {
            Step::Name(name) => write!(f, ".{name}"),
            Step::Index(place) => write!(f, "[{place}]"),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.path, if self.append { "[+]" } else { "" })
    }
}
