//! The words of a turn, which come in pieces.

/// Nobody says so much before waiting for an answer; a service that goes on says it without end.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Adds a piece that stands for itself.
pub(super) fn append(text: &mut String, piece: &str) {
    let piece = piece.trim();
    if piece.is_empty() || text.len() + piece.len() >= TEXT_BYTES_MAX {
        return;
    }
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(piece);
}

/// Adds what follows without a gap, as it comes.
pub(super) fn extend(text: &mut String, delta: &str) {
    if text.len() + delta.len() < TEXT_BYTES_MAX {
        text.push_str(delta);
    }
}

pub(super) fn joined(text: &str, piece: &str) -> String {
    let mut joined = text.to_owned();
    append(&mut joined, piece);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_set_apart_by_one_space_and_have_a_limit() {
        let mut text = joined("", " I want ");
        append(&mut text, " ");
        append(&mut text, "a taxi.");
        assert_eq!(text, "I want a taxi.");
        append(&mut text, &"x".repeat(TEXT_BYTES_MAX));
        assert_eq!(text, "I want a taxi.");
    }
}
