//! The controller is killed at every write, before it arrives and before its answer does, from apply
//! to the end of the deletion. A tailscaled outside stands for the Pod: it logs in with the key that it
//! finds in the Secret.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::lab::{GATEWAY_HOSTNAMES, Signal};
use tsunaro_integration::{Wait, say};

use crate::NAMESPACE;
use crate::beside::{Beside, Without, gateway};
use crate::tap::{Fate, HEADSCALE, Seen, Tap, To, immortal};

const NAME: &str = GATEWAY_HOSTNAMES[0];
const SEEDS: [u64; 3] = [1, 2, 3];
/// Lives of a gateway that one seed may take until the controller was killed at every write.
const LIVES: usize = 12;
/// One life, with dozens of kills in it, on a loaded machine.
const LIFE: Duration = Duration::from_secs(300);

#[test]
fn killed_at_every_write_it_ends_the_same_with_one_usable_key_at_most_and_no_orphan() -> Result<()>
{
    let beside = Beside::start_with(Without::Kubelet)?;
    beside.tailnet(&format!("http://{HEADSCALE}"))?;
    let tap = Tap::start(&beside, beside.lab.headscale().rest().clone())?;
    let _immortal = immortal(&beside, &tap)?;
    let mut chaos = Chaos {
        beside: &beside,
        tap: &tap,
    };
    // Undisturbed, to compare with.
    let plan = Arc::new(Mutex::new(Killer::never()));
    chaos.listen(&plan);
    let expected = chaos.life()?;
    let writes = lock(&plan).points.len();
    say(&format!("an undisturbed life has {writes} kinds of writes"));
    ensure!(writes > 25, "{:?}", lock(&plan).points.keys());
    for seed in SEEDS {
        let began = Instant::now();
        let plan = Arc::new(Mutex::new(Killer::new(seed)));
        chaos.listen(&plan);
        let mut lives = 0;
        loop {
            lives += 1;
            let got = chaos
                .life()
                .with_context(|| format!("seed {seed}, life {lives}"))?;
            ensure!(
                got == expected,
                "seed {seed}, life {lives}: {got:#} is not {expected:#}"
            );
            let plan = lock(&plan);
            if plan.is_through() {
                break;
            }
            ensure!(lives < LIVES, "never at {:?}", plan.open());
        }
        let plan = lock(&plan);
        say(&format!(
            "seed {seed}: {} kills at {} kinds of writes, {} at each or more, in {lives} lives, {:.0} s",
            plan.kills,
            plan.points.len(),
            plan.wanted,
            began.elapsed().as_secs_f64()
        ));
        if seed == 1 {
            for point in plan.points.keys() {
                say(&format!("  {point}"));
            }
        }
    }
    chaos.one_usable_key_at_any_time()
}

/// Kills once before and once after each kind of write, in an order by chance, and now and then again.
struct Killer {
    seed: Option<u64>,
    /// Kills wanted at each kind of write: one, before or after it by chance, or both.
    wanted: usize,
    points: BTreeMap<String, BTreeSet<Fate>>,
    kills: usize,
}

impl Killer {
    fn never() -> Self {
        Self {
            seed: None,
            wanted: 0,
            points: BTreeMap::new(),
            kills: 0,
        }
    }

    /// The first seed kills twice at each kind of write, the others once.
    fn new(seed: u64) -> Self {
        Self {
            seed: Some(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            wanted: if seed == SEEDS[0] { 2 } else { 1 },
            ..Self::never()
        }
    }

    fn fate(&mut self, seen: &Seen) -> Fate {
        if !seen.is_write() {
            return Fate::Pass;
        }
        let done = self.points.entry(point(seen)).or_default();
        let Some(seed) = &mut self.seed else {
            return Fate::Pass;
        };
        let mut below = |limit: u64| {
            // xorshift64, by G. Marsaglia.
            *seed ^= *seed << 13;
            *seed ^= *seed >> 7;
            *seed ^= *seed << 17;
            *seed % limit
        };
        let both = [Fate::KillBefore, Fate::KillAfter];
        let left: Vec<Fate> = both
            .into_iter()
            .filter(|fate| !done.contains(fate))
            .collect();
        let pick = |from: &[Fate], at: u64| from.get(usize::try_from(at).unwrap_or(0)).copied();
        let fate = if done.len() >= self.wanted {
            // Again, now and then.
            (below(25) == 0).then(|| pick(&both, below(2))).flatten()
        } else if below(4) == 0 {
            // Not this time.
            None
        } else {
            let length = u64::try_from(left.len()).unwrap_or(1);
            pick(&left, below(length))
        };
        let Some(fate) = fate else {
            return Fate::Pass;
        };
        done.insert(fate);
        self.kills += 1;
        fate
    }

    fn open(&self) -> Vec<&String> {
        let wanted = self.wanted;
        let open = self.points.iter().filter(|(point, done)| {
            // The limit is reached by chance only.
            done.len() < wanted && !point.ends_with("MintLimit")
        });
        open.map(|(point, _)| point).collect()
    }

    fn is_through(&self) -> bool {
        self.open().is_empty()
    }
}

/// What kind of write it is: the same one each time that it is repeated.
fn point(seen: &Seen) -> String {
    let path = seen.path.split('?').next().unwrap_or_default();
    let path: Vec<&str> = path
        .split('/')
        .map(|word| match word.parse::<u64>() {
            Ok(_) => "ID",
            Err(_) => word,
        })
        .collect();
    let mut point = format!("{:?} {} {}", seen.to, seen.method, path.join("/"));
    if seen.to == To::ApiServer && path.contains(&"events") {
        // Each has a name of its own.
        return format!("{:?} {} events", seen.to, seen.method);
    }
    let at = |pointer: &str| seen.body.pointer(pointer);
    if path.last() == Some(&"status") {
        let ready = at("/status/conditions/0/reason").and_then(Value::as_str);
        point += &format!(" {}", ready.unwrap_or("pinned"));
    }
    if let Some(finalizers) = at("/metadata/finalizers") {
        point += &format!(" finalizers={finalizers}");
    }
    if seen.content_type.contains("merge-patch") {
        let annotations = at("/metadata/annotations").and_then(Value::as_object);
        for (key, value) in annotations.into_iter().flatten() {
            let set = if value.is_null() { "null" } else { "set" };
            point += &format!(" {key}={set}");
        }
        for (key, value) in at("/data").and_then(Value::as_object).into_iter().flatten() {
            let set = if value.is_null() { "null" } else { "set" };
            point += &format!(" data.{key}={set}");
        }
    }
    point
}

struct Chaos<'a> {
    beside: &'a Beside,
    tap: &'a Tap,
}

impl Chaos<'_> {
    fn listen(&self, plan: &Arc<Mutex<Killer>>) {
        let plan = Arc::clone(plan);
        self.tap.judge(move |seen| lock(&plan).fate(seen));
    }

    /// From apply to the login to the deletion; gives what was there in between, without what differs
    /// from one life to the next.
    fn life(&mut self) -> Result<Value> {
        let pod = self.beside.lab.gateway(1)?;
        if pod.is_running() {
            pod.stop(Signal::SIGKILL)?;
        }
        pod.wipe_state()?;
        pod.start()?;
        pod.wait_socket()?;
        self.beside.apply(&gateway(NAME, 60, |object| {
            object["spec"]["deletionPolicy"] = json!("Delete");
        }))?;
        let mut sets = BTreeSet::new();
        let mut logged_in = false;
        self.until("the gateway to be made and its node known", |chaos| {
            sets.extend(chaos.uid_of_set());
            chaos.let_an_hour_pass()?;
            let secret = chaos.get("secret", &format!("{NAME}-authkey"))?;
            let key = secret["data"]["authkey"].as_str();
            if let Some(key) = key.filter(|_| !logged_in && !sets.is_empty()) {
                pod.login(&base64(key)?)?;
                logged_in = true;
            }
            let receipt = chaos.get("configmap", &format!("{NAME}-fresh"))?;
            let (is, message) = chaos.beside.condition(NAME, "Ready")?;
            ensure!(
                logged_in && key.is_none() && receipt["immutable"] == true && is == "False/NoPod",
                "{is}: {message}"
            );
            let object = chaos.beside.node.get(&["tailnetgateway", NAME])?;
            ensure!(object["status"]["nodeId"].is_string(), "no node");
            Ok(Some(()))
        })?;
        ensure!(sets.len() == 1, "StatefulSets: {sets:?}");
        let made = self.shape()?;
        let delete = ["delete", "tailnetgateway", NAME, "--wait=false"];
        self.beside.node.kubectl(&delete)?.ok()?;
        self.until("the gateway to be gone", |chaos| {
            let left = chaos
                .beside
                .node
                .kubectl(&["get", "tailnetgateway", NAME])?;
            ensure!(left.stderr.contains("NotFound"), "{}", left.stdout);
            Ok(Some(()))
        })?;
        self.nothing_is_left()?;
        Ok(made)
    }

    /// Waits, while the controller starts again each time that it was killed.
    fn until<T>(
        &mut self,
        what: &str,
        mut probe: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let log = self.beside.node.machine().dir().join("controller-loop.log");
        Wait::new(what, LIFE)
            .every(Duration::from_millis(30))
            .logs([log])
            .until(|| probe(self))
    }

    fn get(&self, kind: &str, name: &str) -> Result<Value> {
        self.beside
            .node
            .get(&["--namespace", NAMESPACE, kind, name])
    }

    fn uid_of_set(&self) -> Option<String> {
        let set = self.get("statefulset", NAME).ok()?;
        set["metadata"]["uid"].as_str().map(str::to_owned)
    }

    /// Three keys an hour are the limit, and each kill about the key costs one: the hour passes here.
    fn let_an_hour_pass(&self) -> Result<()> {
        let reached = self
            .beside
            .condition(NAME, "Ready")
            .is_ok_and(|(is, _)| is == "False/MintLimit");
        if !reached {
            return Ok(());
        }
        let earlier = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(2);
        let patch = json!({ "metadata": { "annotations": { "tsunaro.io/minted": format!("{earlier} {earlier} {earlier}") } } });
        let patch = format!("--patch={patch}");
        let key = format!("{NAME}-authkey");
        self.beside
            .node
            .kubectl(&[
                "-n",
                NAMESPACE,
                "patch",
                "secret",
                &key,
                "--type=merge",
                &patch,
            ])?
            .ok()?;
        // It remembers them besides.
        self.tap.kill()
    }

    /// The objects with their specs, without names of this life.
    fn shape(&self) -> Result<Value> {
        let mut all = BTreeMap::new();
        for kinds in [
            "serviceaccounts,roles,rolebindings,poddisruptionbudgets,services,configmaps,statefulsets,secrets",
        ] {
            let list = self.beside.node.get(&["--namespace", NAMESPACE, kinds])?;
            for item in list["items"].as_array().into_iter().flatten() {
                let name = item["metadata"]["name"].as_str().unwrap_or_default();
                if !name.starts_with(NAME) {
                    continue;
                }
                let mut data = item["data"].clone();
                for key in ["gatewayUID", "keyID"] {
                    if let Some(value) = data.get_mut(key) {
                        *value = json!("of this life");
                    }
                }
                let labels: Vec<&String> = item["metadata"]["labels"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, _)| key)
                    .collect();
                let annotations: Vec<&String> = item["metadata"]["annotations"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, _)| key)
                    .collect();
                let mut spec = item["spec"].clone();
                without_uid(&mut spec);
                all.insert(
                    format!("{} {name}", item["kind"]),
                    json!({ "data": data, "spec": spec, "labels": labels, "annotations": annotations }),
                );
            }
        }
        let object = self.beside.node.get(&["tailnetgateway", NAME])?;
        let conditions: Vec<String> = object["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|condition| {
                format!(
                    "{}={}/{}",
                    condition["type"], condition["status"], condition["reason"]
                )
            })
            .collect();
        Ok(
            json!({ "objects": all, "conditions": conditions, "finalizers": object["metadata"]["finalizers"] }),
        )
    }

    fn nothing_is_left(&mut self) -> Result<()> {
        let kinds = "serviceaccounts,roles,rolebindings,poddisruptionbudgets,services,configmaps,statefulsets,secrets";
        let mut left = self.beside.names(kinds)?;
        left.retain(|name| name.contains(NAME));
        ensure!(left.is_empty(), "{left:?}");
        let rest = self.beside.lab.headscale().rest();
        let nodes = rest.nodes()?;
        ensure!(!nodes.iter().any(|node| node.name == NAME), "{nodes:?}");
        ensure!(self.beside.usable_keys()? == 0, "a usable key is left");
        Ok(())
    }

    /// Headscale keeps all keys with the moments of their making and of their end: of those that were
    /// not used, no two overlap, and at most one a life was used.
    fn one_usable_key_at_any_time(&self) -> Result<()> {
        let all = self
            .beside
            .lab
            .headscale()
            .rest()
            .call("GET", "preauthkey", None)?;
        let time = |key: &Value, field: &str| -> Result<jiff::Timestamp> {
            key[field]
                .as_str()
                .with_context(|| format!("no {field} in {key}"))?
                .parse()
                .context("a time")
        };
        let mut spans = Vec::new();
        for key in keys(&all) {
            let (from, until) = (time(&key, "createdAt")?, time(&key, "expiration")?);
            // A used key is of no use from the login on; that it is the last one of its life shows below.
            spans.push((from, until, key["used"] == true, key["id"].to_string()));
        }
        spans.sort();
        let mut wasted = 0;
        for pair in spans.windows(2) {
            let [(_, until, used, id), (from, _, _, next)] = pair else {
                continue;
            };
            wasted += usize::from(!used);
            ensure!(
                *used || until <= from,
                "key {id} ends at {until}, key {next} begins at {from}"
            );
        }
        say(&format!(
            "{} keys in all, {wasted} of them expired unused, never two usable at once",
            spans.len()
        ));
        ensure!(wasted > 0, "no key was ever lost: nothing was shown");
        Ok(())
    }
}

fn keys(answer: &Value) -> Vec<Value> {
    let all = answer["preAuthKeys"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    all.into_iter()
        .filter(|key| key["aclTags"] == json!(["tag:fabric"]))
        .collect()
}

/// The gateway's UID is in selectors and labels of templates.
fn without_uid(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if key.contains("uid")
                    || key == "clusterIP"
                    || key == "clusterIPs"
                    || key == "nodePort"
                {
                    *value = Value::Null;
                } else {
                    without_uid(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(without_uid),
        _ => {}
    }
}

/// A Secret's text of its base64 (RFC 4648).
pub(crate) fn base64(text: &str) -> Result<String> {
    let mut bits = 0_u32;
    let mut count = 0;
    let mut out = Vec::new();
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from((bits >> count) & 0xff)?);
        }
    }
    Ok(String::from_utf8(out)?)
}

fn lock(plan: &Mutex<Killer>) -> MutexGuard<'_, Killer> {
    plan.lock().unwrap_or_else(PoisonError::into_inner)
}
