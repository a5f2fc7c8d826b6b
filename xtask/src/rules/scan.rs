//! Finds tests and the rules they hold, in Rust source and in the table of cases.

use anyhow::{Context, Result};

/// A test function that holds rules.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) rules: Vec<u8>,
}

/// The test functions of a source file that hold at least one rule. What is ignored holds none.
pub(super) fn tests(source: &str) -> Vec<Test> {
    let mut found = Vec::new();
    let mut above = Above::default();
    for line in source.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("//") {
            above.rules.extend(holds(comment));
        } else if line.starts_with("#[") {
            above.is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            above.is_ignored |= line.starts_with("#[ignore");
        } else {
            let Above {
                mut rules,
                is_test,
                is_ignored,
            } = std::mem::take(&mut above);
            if let Some(name) = function(line).filter(|_| is_test && !is_ignored) {
                rules.extend(named(name));
                rules.sort_unstable();
                rules.dedup();
                if !rules.is_empty() {
                    found.push(Test {
                        name: name.to_owned(),
                        rules,
                    });
                }
            }
        }
    }
    found
}

/// What stands directly above a line.
#[derive(Default)]
struct Above {
    rules: Vec<u8>,
    is_test: bool,
    is_ignored: bool,
}

fn function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line);
    let name = rest.strip_prefix("fn ")?;
    name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .next()
}

/// The rules in a name: `rule_9_…`, `rule_27_and_55_…`.
fn named(name: &str) -> Vec<u8> {
    let Some(rest) = name.strip_prefix("rule_") else {
        return Vec::new();
    };
    let mut rules = Vec::new();
    let mut words = rest.split('_');
    while let Some(rule) = words.next().and_then(|word| word.parse().ok()) {
        rules.push(rule);
        if words.next() != Some("and") {
            break;
        }
    }
    rules
}

/// The rules of a comment line that is `Holds rule 9.` or `Holds rules 9, 10 and 11.` and no more.
fn holds(comment: &str) -> Vec<u8> {
    let comment = comment.trim_start_matches('/').trim();
    let list = ["Holds rule ", "Holds rules "]
        .iter()
        .find_map(|start| comment.strip_prefix(start))
        .and_then(|rest| rest.strip_suffix('.'));
    let Some(list) = list else { return Vec::new() };
    let rules: Option<Vec<u8>> = list
        .replace(" and ", ", ")
        .split(", ")
        .map(|word| word.parse().ok())
        .collect();
    rules.unwrap_or_default()
}

/// The pairs of case and rule. Further steps of a case have "." in the first columns.
///
/// # Errors
/// For a row without rules.
pub(super) fn cases(table: &str) -> Result<Vec<(String, u8)>> {
    let mut found = Vec::new();
    for line in table.lines() {
        let mut columns = line.split('\t');
        let (Some(case), Some(rules)) = (columns.next(), columns.next()) else {
            continue;
        };
        if case.starts_with('#') || case == "." {
            continue;
        }
        for rule in rules.split(',') {
            let rule = rule
                .parse()
                .with_context(|| format!("{case}: \"{rule}\" is no rule"))?;
            found.push((case.to_owned(), rule));
        }
    }
    Ok(found)
}
