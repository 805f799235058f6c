//! Contacts from a CSV file.

use crate::{
    number::{DiallingPlan, Number, TEXT_MAX},
    store::Entry,
    text::{self, COMPANY_MAX, NAME_MAX, NOTE_MAX},
};
use csv::{ReaderBuilder, StringRecord, Trim};
use std::collections::HashMap;

/// Far more than a small company has; keeps a wrong file from filling memory.
pub const BYTES_MAX: u64 = 32 << 20;
/// Bad lines that are told one by one.
const TOLD_MAX: usize = 100;

const COLUMNS: [&str; 5] = ["number", "name", "company", "note", "vip"];

/// Where each column of the file is.
struct Header {
    places: [Option<usize>; 5],
}

impl Header {
    fn read(header: &StringRecord) -> Result<Self, Vec<String>> {
        let mut places = [None; 5];
        let mut problems = Vec::new();
        for (place, name) in header.iter().enumerate() {
            let known = COLUMNS.iter().position(|column| column.eq_ignore_ascii_case(name));
            match known {
                Some(column) if places[column].is_some() => {
                    problems.push(format!("line 1: column {name} is there twice"))
                }
                Some(column) => places[column] = Some(place),
                None => problems.push(format!("line 1: unknown column {name:?}; known are {}", COLUMNS.join(", "))),
            }
        }
        for (place, column) in places.iter().zip(COLUMNS).take(2) {
            if place.is_none() {
                problems.push(format!("line 1: there is no column {column}"));
            }
        }
        if problems.is_empty() { Ok(Self { places }) } else { Err(problems) }
    }

    /// The text of a column; `None` where the file has no such column.
    fn text<'a>(&self, column: usize, record: &'a StringRecord) -> Option<&'a str> {
        self.places[column].map(|place| record.get(place).unwrap_or_default())
    }

    fn entry(&self, record: &StringRecord, plan: &DiallingPlan) -> Result<Entry, String> {
        let number = self.text(0, record).unwrap_or_default();
        if number.len() > TEXT_MAX {
            return Err(format!("number: more than {TEXT_MAX} characters"));
        }
        let number = Number::parse(number, plan).map_err(|why| format!("number: {why}"))?;
        let checked = |column, limit| {
            self.text(column, record).map(|words| text::checked(COLUMNS[column], words, limit)).transpose()
        };
        let name = checked(1, NAME_MAX)?.unwrap_or_default();
        if name.is_empty() {
            return Err("name: it is empty".into());
        }
        let (company, note) = (checked(2, COMPANY_MAX)?, checked(3, NOTE_MAX)?);
        Ok(Entry { number, name, company, note, vip: self.text(4, record).map(yes_or_no).transpose()? })
    }
}

fn yes_or_no(word: &str) -> Result<bool, String> {
    match word.to_ascii_lowercase().as_str() {
        "yes" | "true" | "1" | "x" => Ok(true),
        "no" | "false" | "0" | "" => Ok(false),
        _ => Err("vip: neither yes nor no".into()),
    }
}

/// Reads a whole file, separated by commas or semicolons, with a header row.
///
/// # Errors
/// One line for each bad line of the file. What is in them is not repeated: it is private.
pub fn read(bytes: &[u8], plan: &DiallingPlan) -> Result<Vec<Entry>, Vec<String>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let header = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    // Spreadsheets of countries with a decimal comma write semicolons.
    let semicolons = header.contains(&b';') && !header.contains(&b',');
    let delimiter = if semicolons { b';' } else { b',' };
    let mut reader = ReaderBuilder::new().delimiter(delimiter).trim(Trim::All).from_reader(bytes);
    let header = Header::read(reader.headers().map_err(|error| vec![told(&error)])?)?;
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    let mut lines = HashMap::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                problems.push(told(&error));
                continue;
            }
        };
        let line = record.position().map_or(0, csv::Position::line);
        match header.entry(&record, plan) {
            Err(why) => problems.push(format!("line {line}: {why}")),
            Ok(entry) => match lines.insert(entry.number.clone(), line) {
                Some(first) => problems.push(format!("line {line}: number: the same as in line {first}")),
                None => entries.push(entry),
            },
        }
    }
    if problems.is_empty() { Ok(entries) } else { Err(shortened(problems)) }
}

fn told(error: &csv::Error) -> String {
    let line = error.position().map_or(1, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Utf8 { .. } => format!("line {line}: it is not UTF-8; save the file as UTF-8"),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("line {line}: it has {len} fields, the header has {expected_len}")
        }
        _ => format!("line {line}: {error}"),
    }
}

fn shortened(mut problems: Vec<String>) -> Vec<String> {
    if problems.len() > TOLD_MAX {
        let rest = problems.len() - TOLD_MAX;
        problems.truncate(TOLD_MAX);
        problems.push(format!("and {rest} more"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> DiallingPlan {
        DiallingPlan { country: Some("49".into()), international: "00".into(), trunk: "0".into() }
    }

    #[test]
    fn columns_come_in_any_order_and_with_either_separator() {
        for text in [
            "number,name,company,note,vip\n030 1234,Anna Meier,Meier Ltd.,\"Pays late, kind\",yes\n",
            "\u{feff}VIP;Note;Name;Company;Number\r\nx;Pays late, kind; Anna Meier ;Meier Ltd.;+49 30 1234\r\n",
        ] {
            let entries = read(text.as_bytes(), &plan()).unwrap();
            assert_eq!(entries.len(), 1);
            let Entry { number, name, company, note, vip } = &entries[0];
            assert_eq!((number.as_str(), name.as_str()), ("+49301234", "Anna Meier"));
            assert_eq!((company.as_deref(), note.as_deref()), (Some("Meier Ltd."), Some("Pays late, kind")));
            assert_eq!(*vip, Some(true));
        }
        let short = read(b"name,number\nAnna,6001\n", &plan()).unwrap();
        assert_eq!((&short[0].company, &short[0].note, short[0].vip), (&None, &None, None));
    }

    #[test]
    fn every_bad_line_is_told_with_its_number_and_without_what_is_in_it() {
        let text = b"number,name,note,vip\n\
            030 1234,Anna,,\n\
            secretary,Bert,,\n\
            030 99,,,\n\
            0049301234,Carla,,\n\
            030 55,Dora,,maybe\n\
            030 66,Em\x07il,,\n\
            030 77,Fritz\n\
            030 88,\xff,,\n\
            \"030 99\",\"Two\nlines\",,\n\
            anonymous,Gerd,,\n";
        let problems = read(text, &plan()).unwrap_err();
        assert_eq!(
            problems,
            [
                "line 3: number: this is no telephone number",
                "line 4: name: it is empty",
                "line 5: number: the same as in line 2",
                "line 6: vip: neither yes nor no",
                "line 7: name: it holds a control character",
                "line 8: it has 2 fields, the header has 4",
                "line 9: it is not UTF-8; save the file as UTF-8",
                "line 10: name: it holds a control character",
                "line 12: number: the number is withheld",
            ]
        );
    }

    #[test]
    fn a_header_that_is_not_understood_is_told_before_any_line() {
        let problems = read(b"telephone,name,name\n030 1,Anna,B\n", &plan()).unwrap_err();
        assert_eq!(
            problems,
            [
                "line 1: unknown column \"telephone\"; known are number, name, company, note, vip",
                "line 1: column name is there twice",
                "line 1: there is no column number",
            ]
        );
        assert_eq!(read(b"", &plan()).unwrap_err().len(), 2);
    }

    #[test]
    fn a_file_of_nothing_but_bad_lines_is_told_in_bounds() {
        let text = format!("number,name\n{}", "x,y\n".repeat(250));
        let problems = read(text.as_bytes(), &plan()).unwrap_err();
        assert_eq!((problems.len(), problems[100].as_str()), (101, "and 150 more"));
    }
}
