//! YAML syntax errors in plain words.

use saphyr_parser::ScanError;

use super::tree;
use crate::finding::Position;

/// Where it is, what is wrong, what to do.
pub(super) fn explain(text: &str, error: &ScanError) -> (Position, String, String) {
    let position = tree::position(*error.marker());
    let info = error.info();
    if let Some((position, character)) =
        strange_indentation(text, position.line, info.contains("tab"))
    {
        let what = match character {
            '\t' => "a tab stands in the indentation, which YAML forbids".to_owned(),
            other => strange_space(other),
        };
        return (position, what, "indent with spaces".into());
    }
    if let Some(character) = reserved_start(text, position) {
        return (
            position,
            format!("a value cannot begin with `{character}` in YAML"),
            format!("put the value in double quotes, as in `\"{character}\"`"),
        );
    }
    let known = KNOWN.iter().find(|(part, _, _)| info.contains(part));
    match known {
        Some((_, what, fix)) => (
            position,
            format!("not valid YAML: {what}"),
            (*fix).to_owned(),
        ),
        None => (
            position,
            format!("not valid YAML: {info}"),
            "check indentation, colons, quotes and brackets here and on the line above".to_owned(),
        ),
    }
}

/// What is wrong with a space as typesetters have it.
pub(super) fn strange_space(character: char) -> String {
    format!(
        "a space that is none (U+{:04X}) stands in the indentation",
        u32::from(character)
    )
}

/// Parts of the parser's messages, and how to say it.
const KNOWN: [(&str, &str, &str); 10] = [
    (
        "recursion limit",
        "the file is nested too deeply",
        "write it without deep nesting",
    ),
    (
        "unknown anchor",
        "an alias (`*name`) without its anchor (`&name`)",
        "quote the value if it is meant to begin with `*`",
    ),
    (
        "mapping values are not allowed",
        "a second colon on one line",
        "put text that contains `: ` in quotes, or begin a new line",
    ),
    (
        "simple key expect",
        "a line without a colon",
        "write `field: value`, with the right indentation",
    ),
    (
        "could not find expected ':'",
        "a line without a colon",
        "write `field: value`, with the right indentation",
    ),
    (
        "unexpected end of stream",
        "a quoted text, list or mapping is not closed",
        "add the missing quote or bracket",
    ),
    (
        "while parsing a flow",
        "a list or mapping in brackets is not closed, or lacks a comma",
        "add the missing bracket or comma",
    ),
    (
        "flow",
        "a list or mapping in brackets is not closed, or lacks a comma",
        "add the missing bracket or comma",
    ),
    (
        "did not find expected key",
        "the indentation does not fit the lines above",
        "indent fields of one mapping equally",
    ),
    (
        "indentation",
        "the indentation does not fit the lines above",
        "indent fields of one mapping equally",
    ),
];

fn line(text: &str, number: u32) -> Option<&str> {
    text.lines()
        .nth(usize::try_from(number).ok()?.checked_sub(1)?)
}

/// The first tab, or space as typesetters have it, before any other character: on the line of the
/// error, on the one above, where the parser may have gone wrong first, or on the one below, if the
/// parser met a tab there.
fn strange_indentation(text: &str, number: u32, met_tab: bool) -> Option<(Position, char)> {
    let below = met_tab.then(|| number.saturating_add(1));
    [number, number.saturating_sub(1)]
        .into_iter()
        .chain(below)
        .find_map(|number| {
            let indentation = line(text, number)?
                .chars()
                .take_while(|c| c.is_whitespace());
            let (column, character) = (1..).zip(indentation).find(|(_, c)| *c != ' ')?;
            let position = Position {
                line: number,
                column,
            };
            Some((position, character))
        })
}

/// The character at the error, if it is one that YAML reserves at the start of plain text.
fn reserved_start(text: &str, position: Position) -> Option<char> {
    let column = usize::try_from(position.column).ok()?.checked_sub(1)?;
    let character = line(text, position.line)?.chars().nth(column)?;
    matches!(character, '@' | '`' | '%' | '*' | '&').then_some(character)
}
