//! Headscale's policy: what gateways need in it.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::Ipv4Net;
use jsonc_parser::tokens::Token;
use jsonc_parser::{ParseOptions, Scanner, parse_to_serde_value};
use serde_json::{Map, Value, json};
use tsunaro_model::gateway::{Gateway, Tailnet};

/// Objects and lists within each other at most. The parser goes down by recursion, and a policy has four.
const DEPTH: usize = 64;
/// Prefixes in the lines for a person at most: they are part of a condition, which is stored.
const SHOWN: usize = 32;

/// What one gateway needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Its tags, which somebody must own.
    pub tags: BTreeSet<String>,
    /// Tags that approve its prefixes by themselves.
    pub approvers: BTreeSet<String>,
    /// Its prefixes.
    pub routes: Vec<Ipv4Net>,
}

/// Why a text is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPolicy {
    /// Not HuJSON.
    #[error("it is not JSON with comments: {0}")]
    Syntax(String),
    /// Nobody writes such a one.
    #[error("it has objects and lists more than {DEPTH} deep")]
    Deep,
    /// Something else than a map.
    #[error("it is no JSON object")]
    NotAnObject,
    /// A part of it has another type than it should.
    #[error("{0} in it is no JSON object")]
    Part(&'static str),
}

impl Need {
    /// What this gateway needs for these prefixes.
    pub fn of(gateway: &Gateway, tailnet: &Tailnet, routes: &[Ipv4Net]) -> Self {
        let tags: BTreeSet<String> = gateway.tags.iter().cloned().collect();
        let approvers = if tailnet.route_approvers.is_empty() {
            tags.clone()
        } else {
            tailnet.route_approvers.iter().cloned().collect()
        };
        Self {
            tags,
            approvers,
            routes: routes.to_vec(),
        }
    }
}

/// Reads HuJSON: JSON with comments and final commas. Nothing but white space is an empty policy.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Value, InvalidPolicy> {
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        ..ParseOptions::default()
    };
    if is_deep(text) {
        return Err(InvalidPolicy::Deep);
    }
    let value = parse_to_serde_value(text, &options)
        .map_err(|error| InvalidPolicy::Syntax(error.to_string()))?;
    match value {
        None => Ok(json!({})),
        Some(value @ Value::Object(_)) => Ok(value),
        Some(_) => Err(InvalidPolicy::NotAnObject),
    }
}

/// A text that is no JSON is not deep: that is for the parser to say.
fn is_deep(text: &str) -> bool {
    let mut scanner = Scanner::new(text);
    let mut depth = 0_usize;
    while let Ok(Some(token)) = scanner.scan() {
        match token {
            Token::OpenBrace | Token::OpenBracket => depth += 1,
            Token::CloseBrace | Token::CloseBracket => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH {
            return true;
        }
    }
    false
}

/// The base with what these gateways need.
///
/// # Errors
/// [`InvalidPolicy::Part`].
pub fn merge(base: &Value, needs: &[Need]) -> Result<Value, InvalidPolicy> {
    let mut policy = base.clone();
    let root = policy.as_object_mut().ok_or(InvalidPolicy::NotAnObject)?;
    let owners = map(root, "tagOwners", "tagOwners")?;
    for tag in needs
        .iter()
        .flat_map(|need| need.tags.iter().chain(&need.approvers))
    {
        owners.entry(tag).or_insert_with(|| json!([]));
    }
    let approvers = map(root, "autoApprovers", "autoApprovers")?;
    let routes = map(approvers, "routes", "autoApprovers.routes")?;
    for need in needs {
        for prefix in &need.routes {
            let list = routes
                .entry(prefix.to_string())
                .or_insert_with(|| json!([]));
            let Value::Array(list) = list else {
                return Err(InvalidPolicy::Part("autoApprovers.routes"));
            };
            for tag in &need.approvers {
                if !list.iter().any(|entry| entry == tag) {
                    list.push(tag.clone().into());
                }
            }
        }
    }
    Ok(policy)
}

/// What a policy lacks, as one JSON object to be merged into it, and in words what there is no room for.
/// None if it lacks nothing.
pub fn missing(policy: &Value, needs: &[Need]) -> Option<String> {
    let owners = policy.get("tagOwners").and_then(Value::as_object);
    let routes = policy
        .pointer("/autoApprovers/routes")
        .and_then(Value::as_object);
    let tags: BTreeSet<&String> = needs
        .iter()
        .flat_map(|need| &need.tags)
        .filter(|tag| !owners.is_some_and(|owners| owners.contains_key(*tag)))
        .collect();
    let mut prefixes: BTreeMap<Ipv4Net, BTreeSet<&String>> = BTreeMap::new();
    for need in needs {
        for prefix in &need.routes {
            if !is_approved(routes, *prefix, need) {
                prefixes.entry(*prefix).or_default().extend(&need.approvers);
            }
        }
    }
    let mut lines = Map::new();
    if !tags.is_empty() {
        let tags: Map<String, Value> = tags
            .into_iter()
            .map(|tag| (tag.clone(), json!([])))
            .collect();
        lines.insert("tagOwners".to_owned(), tags.into());
    }
    let more = prefixes.len().saturating_sub(SHOWN);
    if !prefixes.is_empty() {
        let routes: Map<String, Value> = prefixes
            .into_iter()
            .take(SHOWN)
            .map(|(prefix, tags)| (prefix.to_string(), json!(tags)))
            .collect();
        lines.insert("autoApprovers".to_owned(), json!({ "routes": routes }));
    }
    if lines.is_empty() {
        return None;
    }
    let lines = Value::from(lines);
    Some(match more {
        0 => lines.to_string(),
        more => format!("{lines}, and {more} more prefixes, unless a wider one approves them"),
    })
}

/// Headscale approves a prefix that lies in one of its approvers' (`NodeCanApproveRoute`,
/// hscontrol/policy/v2/policy.go).
fn is_approved(routes: Option<&Map<String, Value>>, prefix: Ipv4Net, need: &Need) -> bool {
    routes.into_iter().flatten().any(|(covering, tags)| {
        let covers = covering
            .parse::<Ipv4Net>()
            .is_ok_and(|covering| covering.contains(&prefix));
        let ours = tags
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .any(|tag| need.tags.contains(tag));
        covers && ours
    })
}

fn map<'m>(
    of: &'m mut Map<String, Value>,
    key: &str,
    path: &'static str,
) -> Result<&'m mut Map<String, Value>, InvalidPolicy> {
    of.entry(key)
        .or_insert_with(|| json!({}))
        .as_object_mut()
        .ok_or(InvalidPolicy::Part(path))
}

#[cfg(test)]
mod tests;
