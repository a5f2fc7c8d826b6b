//! Headscale's REST interface, for tests.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::certs::{CONTROL_NAME, Certs};
use super::headscale::CONTROL_URL;
use super::node::Node;
use super::wires::CONTROL;

/// A client of the REST interface, with an API key.
#[derive(Debug, Clone)]
pub struct Rest {
    namespace: String,
    ca: PathBuf,
    /// A curl configuration with the key, so that no command line shows it.
    auth: PathBuf,
    key: String,
}

/// A node as Headscale lists it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HsNode {
    /// A 64-bit number, as a string.
    pub id: String,
    /// The hostname that the node gave.
    pub name: String,
    /// The name in the tailnet, unique by a suffix.
    #[serde(default)]
    pub given_name: String,
    /// Tailnet addresses.
    #[serde(default)]
    pub ip_addresses: Vec<String>,
    /// Whether it is connected.
    #[serde(default)]
    pub online: bool,
    /// RFC 3339; null or year 1 is never.
    #[serde(default)]
    pub expiry: Option<String>,
    /// Approved prefixes.
    #[serde(default)]
    pub approved_routes: Vec<String>,
    /// Advertised prefixes.
    #[serde(default)]
    pub available_routes: Vec<String>,
    /// Prefixes of which it is the primary now.
    #[serde(default)]
    pub subnet_routes: Vec<String>,
    /// Tags.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// What a new pre-auth key is for.
#[derive(Debug, Clone)]
pub struct KeyOptions {
    /// Tags of the nodes that log in with it.
    pub tags: Vec<String>,
    /// Whether more than one node may.
    pub reusable: bool,
    /// How long it is valid.
    pub valid: Duration,
}

impl KeyOptions {
    /// A single-use key for a tag, valid for an hour.
    #[must_use]
    pub fn tagged(tag: &str) -> Self {
        Self {
            tags: vec![tag.to_owned()],
            reusable: false,
            valid: Duration::from_secs(3600),
        }
    }
}

impl Rest {
    pub(super) fn new(node: &Node, certs: &Certs) -> Self {
        Self {
            namespace: node.namespace().to_owned(),
            ca: certs.ca.clone(),
            auth: node.dir().join("curl.conf"),
            key: String::new(),
        }
    }

    pub(super) fn set_key(&mut self, key: &str) -> Result<()> {
        key.clone_into(&mut self.key);
        std::fs::write(
            &self.auth,
            format!("header = \"Authorization: Bearer {key}\"\n"),
        )?;
        Ok(())
    }

    /// The API key, for a controller under test.
    #[must_use]
    pub fn api_key(&self) -> &str {
        &self.key
    }

    pub(super) fn healthy(&self) -> Result<()> {
        let (status, body) = self.curl("GET", "/health", None, false)?;
        if status != 200 {
            bail!("/health: {status}: {body}");
        }
        Ok(())
    }

    /// Any call below `/api/v1/`: its status and body.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, String)> {
        self.curl(method, &format!("/api/v1/{path}"), body, true)
    }

    /// As [`request`](Self::request), with any status but 2xx as an error.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let (status, answer) = self.request(method, path, body)?;
        if !(200..300).contains(&status) {
            bail!("{method} {path}: {status}: {answer}");
        }
        serde_json::from_str(&answer).with_context(|| format!("{method} {path}: {answer}"))
    }

    /// Mints a pre-auth key; the secret itself.
    pub fn preauth_key(&self, options: &KeyOptions) -> Result<String> {
        let expiration = jiff::Timestamp::now().checked_add(options.valid)?;
        let body = json!({
            "reusable": options.reusable,
            "ephemeral": false,
            "expiration": expiration.to_string(),
            "aclTags": options.tags,
        });
        let answer = self.call("POST", "preauthkey", Some(&body))?;
        answer
            .pointer("/preAuthKey/key")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .with_context(|| format!("no key in {answer}"))
    }

    /// All nodes.
    pub fn nodes(&self) -> Result<Vec<HsNode>> {
        #[derive(Deserialize)]
        struct List {
            #[serde(default)]
            nodes: Vec<HsNode>,
        }
        let list: List = serde_json::from_value(self.call("GET", "node", None)?)?;
        Ok(list.nodes)
    }

    /// The node with this given name, as `gw-1`.
    pub fn node(&self, given_name: &str) -> Result<HsNode> {
        let nodes = self.nodes()?;
        let names: Vec<String> = nodes.iter().map(|node| node.given_name.clone()).collect();
        nodes
            .into_iter()
            .find(|node| node.given_name == given_name)
            .with_context(|| format!("headscale has no node {given_name}, only {names:?}"))
    }

    /// Replaces the node's approved routes.
    pub fn approve_routes(&self, id: &str, routes: &[&str]) -> Result<()> {
        let body = json!({ "routes": routes });
        self.call("POST", &format!("node/{id}/approve_routes"), Some(&body))?;
        Ok(())
    }

    /// The policy, as it was set.
    pub fn policy(&self) -> Result<String> {
        let answer = self.call("GET", "policy", None)?;
        answer
            .get("policy")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .with_context(|| format!("no policy in {answer}"))
    }

    /// Sets the policy, HuJSON.
    pub fn set_policy(&self, policy: &str) -> Result<()> {
        self.call("PUT", "policy", Some(&json!({ "policy": policy })))?;
        Ok(())
    }

    /// Expires the node's key now.
    pub fn expire(&self, id: &str) -> Result<()> {
        self.call("POST", &format!("node/{id}/expire"), None)?;
        Ok(())
    }

    /// Makes the node's key never expire, which heals an expired one.
    pub fn disable_expiry(&self, id: &str) -> Result<()> {
        let path = format!("node/{id}/expire?disableExpiry=true");
        self.call("POST", &path, None)?;
        Ok(())
    }

    /// Deletes the node.
    pub fn delete(&self, id: &str) -> Result<()> {
        self.call("DELETE", &format!("node/{id}"), None)?;
        Ok(())
    }

    fn curl(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        authorized: bool,
    ) -> Result<(u16, String)> {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.namespace))
            .args(["curl", "--silent", "--show-error", "--max-time", "10"])
            .args(["--noproxy", "*", "--resolve"])
            .arg(format!("{CONTROL_NAME}:8443:{CONTROL}"))
            .arg("--cacert")
            .arg(&self.ca)
            .args(["--write-out", "\n%{http_code}", "--request", method]);
        if authorized {
            command.arg("--config").arg(&self.auth);
        }
        if let Some(body) = body {
            command.args([
                "--header",
                "Content-Type: application/json",
                "--data-binary",
            ]);
            command.arg(body.to_string());
        }
        let output = command
            .arg(format!("{CONTROL_URL}{path}"))
            .output()
            .context("run curl")?;
        if !output.status.success() {
            bail!(
                "{method} {path}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let text = String::from_utf8(output.stdout)?;
        let (answer, status) = text.rsplit_once('\n').context("curl wrote no status")?;
        Ok((status.parse()?, answer.to_owned()))
    }
}
