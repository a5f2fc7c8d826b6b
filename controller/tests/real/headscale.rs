//! The Headscale client against the real one: every call, every error that it can be made to show.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ipnet::IpNet;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use serde_json::json;
use tsunaro_controller::headscale::{
    ApiKey, Error, Expiry, Headscale, KeyId, MintRequest, NodeCache, NodeId, Phase, ServerUrl,
    Trust,
};
use tsunaro_integration::lab::{
    CONTROL, CONTROL_URL, ControlVersion, DEFAULT_POLICY, LAN, Lab, LabOptions, Signal, Start,
};

/// Runs a future on the control server's machine: its network, and its hosts file, so that names
/// are resolved as in a Pod. The namespaces are the thread's own and end with it.
fn on_control<T: Send>(lab: &Lab, test: impl AsyncFnOnce() -> Result<T> + Send) -> Result<T> {
    let node = lab.headscale().node();
    let namespace = std::fs::File::open(format!("/run/netns/{}", node.namespace()))?;
    let hosts = node.dir().join("hosts");
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || -> Result<T> {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS)?;
            let nothing: Option<&str> = None;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(nothing, "/", nothing, private, nothing)?;
            mount(
                Some(&hosts),
                "/etc/hosts",
                nothing,
                MsFlags::MS_BIND,
                nothing,
            )?;
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?
                .block_on(test())
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn client(lab: &Lab) -> Result<Headscale> {
    client_with(lab, CONTROL_URL, lab.headscale().rest().api_key(), true)
}

fn client_with(lab: &Lab, url: &str, key: &str, our_ca: bool) -> Result<Headscale> {
    let trust = if our_ca {
        Trust::only(&std::fs::read(lab.peer().ca())?)?
    } else {
        Trust::public()?
    };
    Ok(Headscale::new(
        ServerUrl::parse(url)?,
        ApiKey::parse(key)?,
        trust,
    ))
}

fn lab(control: ControlVersion, gateway: Start) -> Result<Lab> {
    Lab::start(LabOptions {
        control,
        gateways: [gateway, Start::Off],
        peer: Start::Off,
        ..LabOptions::default()
    })
}

fn mint(tags: &[&str], valid: Duration) -> Result<MintRequest> {
    Ok(MintRequest {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        expiration: jiff::Timestamp::now().checked_add(valid)?,
    })
}

fn routes(texts: &[&str]) -> Result<BTreeSet<IpNet>> {
    Ok(texts
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?)
}

const HOUR: Duration = Duration::from_secs(3600);

macro_rules! ensure_matches {
    ($call:expr, $pattern:pat) => {
        match $call {
            Err($pattern) => {}
            other => bail!("{}: {other:?}", stringify!($call)),
        }
    };
}

async fn keys(lab: &Lab) -> Result<()> {
    let headscale = client(lab)?;
    let now = jiff::Timestamp::now();

    // An odd number of nanoseconds comes back as it went.
    let mut request = mint(&["tag:fabric"], HOUR)?;
    request.expiration = jiff::Timestamp::new(request.expiration.as_second(), 123_456_789)?;
    let minted = headscale.mint_key(&request).await?;
    ensure!(
        minted.expiration == Expiry::At(request.expiration),
        "{minted:?}"
    );
    ensure!(
        minted.tags == request.tags && minted.key.secret().starts_with("hskey-auth-"),
        "{minted:?}"
    );
    ensure!(
        !format!("{minted:?}").contains(minted.key.secret()),
        "the key shows"
    );

    let listed = headscale.keys().await?;
    let ours = listed
        .iter()
        .find(|key| key.was_minted_for(request.expiration))
        .context("not listed")?;
    ensure!(
        ours.id == minted.id && ours.tags == request.tags,
        "{ours:?}"
    );
    ensure!(
        !ours.used && !ours.reusable && ours.is_usable(now),
        "{ours:?}"
    );

    headscale.expire_key(minted.id).await?;
    headscale.expire_key(minted.id).await?;
    let listed = headscale.keys().await?;
    let ours = listed
        .iter()
        .find(|key| key.id == minted.id)
        .context("no longer listed")?;
    ensure!(!ours.is_usable(jiff::Timestamp::now()), "{ours:?}");

    // The fact that makes the expiration a part of the request.
    let raw = json!({ "reusable": false, "aclTags": ["tag:fabric"] });
    let raw = lab
        .headscale()
        .rest()
        .call("POST", "preauthkey", Some(&raw))?;
    let id: KeyId = raw
        .pointer("/preAuthKey/id")
        .and_then(|id| id.as_str())
        .context("no id")?
        .parse()?;
    let listed = headscale.keys().await?;
    let born_expired = listed
        .iter()
        .find(|key| key.id == id)
        .context("not listed")?;
    ensure!(
        born_expired.expiration != Expiry::Never && !born_expired.is_usable(now),
        "{born_expired:?}"
    );

    ensure_matches!(
        headscale.mint_key(&mint(&[], HOUR)?).await,
        Error::Rejected { .. }
    );
    for tag in ["fabric", "tag:Fabric", "tag:a b"] {
        ensure_matches!(
            headscale.mint_key(&mint(&[tag], HOUR)?).await,
            Error::InvalidTag { .. }
        );
    }
    // Unknown to the policy: 0.28 and 0.29 take it, or refuse the tag.
    match headscale.mint_key(&mint(&["tag:unknown"], HOUR)?).await {
        Ok(key) => println!("a tag missing in tagOwners is minted: {:?}", key.tags),
        Err(Error::InvalidTag { message, .. }) => {
            println!("a tag missing in tagOwners is refused: {message}");
        }
        Err(other) => bail!("{other:?}"),
    }
    // Success up to 0.29, not found later.
    match headscale.expire_key("987654321".parse()?).await {
        Ok(()) => println!("expiring an unknown key is a success"),
        Err(Error::NotFound { message, .. }) => println!("expiring an unknown key: {message}"),
        Err(other) => bail!("{other:?}"),
    }
    Ok(())
}

async fn policy(lab: &Lab) -> Result<()> {
    let headscale = client(lab)?;
    let text = format!("// a comment\n{DEFAULT_POLICY}");
    ensure!(
        headscale.set_policy(&text).await?.text == text,
        "another policy is set"
    );
    let policy = headscale.policy().await?.context("no policy")?;
    ensure!(
        policy.text == text && policy.updated.is_some(),
        "{policy:?}"
    );
    for bad in [
        "{",
        "not HuJSON",
        r#"{"acls":[{"action":"accept","src":["tag:nobody"],"dst":["*:*"]}]}"#,
    ] {
        ensure_matches!(headscale.set_policy(bad).await, Error::Rejected { .. });
    }
    ensure!(
        headscale.policy().await?.context("no policy")?.text == text,
        "a refused policy is set"
    );
    Ok(())
}

async fn server(lab: &Lab, numbers: (u32, u32)) -> Result<()> {
    let headscale = client(lab)?;
    headscale.health().await?;
    let version = headscale.version().await?;
    ensure!(version.numbers() == Some(numbers), "{version:?}");
    let Some(Expiry::At(at)) = headscale.api_key_expiry().await? else {
        bail!("our API key is not listed with an expiry");
    };
    let left = at.duration_since(jiff::Timestamp::now()).as_hours();
    ensure!((22..=24).contains(&left), "{at}");

    let key = lab.headscale().rest().api_key();
    let wrong = format!("{}{}", &key[..key.len() - 4], "AAAA");
    for wrong in [wrong.as_str(), "hskey-api-nonsense", "nonsense"] {
        ensure_matches!(
            client_with(lab, CONTROL_URL, wrong, true)?.nodes().await,
            Error::Unauthorized { status: 401, .. }
        );
        client_with(lab, CONTROL_URL, wrong, true)?.health().await?;
    }
    ensure_matches!(
        client_with(lab, CONTROL_URL, key, false)?.health().await,
        Error::Untrusted { .. }
    );
    let by_address = format!("https://{CONTROL}:8443");
    ensure_matches!(
        client_with(lab, &by_address, key, true)?.health().await,
        Error::Untrusted { .. }
    );
    let plain = CONTROL_URL.replace("https:", "http:");
    ensure_matches!(
        client_with(lab, &plain, key, true)?.nodes().await,
        Error::NotHeadscale { .. }
    );
    let metrics = "http://127.0.0.1:9090";
    ensure_matches!(
        client_with(lab, metrics, key, true)?.nodes().await,
        Error::NotHeadscale { .. }
    );
    let nobody = "https://hs.lab.test:1";
    ensure_matches!(
        client_with(lab, nobody, key, true)?.nodes().await,
        Error::Unavailable {
            phase: Phase::Connecting,
            ..
        }
    );
    let unknown = "https://unknown.lab.test";
    ensure_matches!(
        client_with(lab, unknown, key, true)?.nodes().await,
        // At once where a resolver says so; the lab's may stay silent.
        Error::Unavailable {
            phase: Phase::Connecting,
            ..
        } | Error::Timeout {
            phase: Phase::Connecting,
            ..
        }
    );
    Ok(())
}

async fn unknown_nodes(lab: &Lab, disable_expiry: bool) -> Result<()> {
    let headscale = client(lab)?;
    let id: NodeId = "987654321".parse()?;
    ensure_matches!(headscale.delete_node(id).await, Error::NotFound { .. });
    ensure_matches!(headscale.expire_node(id).await, Error::NotFound { .. });
    ensure_matches!(
        headscale.approve_routes(id, &routes(&[LAN])?).await,
        Error::NotFound { .. }
    );
    if disable_expiry {
        ensure_matches!(headscale.disable_expiry(id).await, Error::NotFound { .. });
    } else {
        ensure_matches!(
            headscale.disable_expiry(id).await,
            Error::Unsupported { .. }
        );
    }
    Ok(())
}

/// The gateway is logged in; at the end it is deleted.
async fn nodes(lab: &Lab, disable_expiry: bool) -> Result<()> {
    let cache = NodeCache::new(client(lab)?, HOUR);
    let headscale = cache.source();
    let list = cache.nodes().await?;
    let node = list.with_hostname("gw-1").next().context("no gw-1")?;
    let id = node.id;
    ensure!(
        node.given_name == "gw-1" && node.online && node.expiry == Expiry::Never,
        "{node:?}"
    );
    ensure!(
        node.tags == BTreeSet::from(["tag:fabric".to_owned()]),
        "{node:?}"
    );
    ensure!(
        !node.addresses.is_empty() && node.created.is_some(),
        "{node:?}"
    );
    let key = node.key.context("no key")?;
    let used = headscale
        .keys()
        .await?
        .into_iter()
        .find(|listed| listed.id == key)
        .context("not listed")?;
    ensure!(
        used.used && !used.is_usable(jiff::Timestamp::now()),
        "{used:?}"
    );

    // What is not advertised is approved all the same, and replaced as a whole.
    let approved = headscale
        .approve_routes(id, &routes(&["203.0.113.0/24", "198.51.100.0/24"])?)
        .await?;
    ensure!(
        approved == routes(&["203.0.113.0/24", "198.51.100.0/24"])?,
        "{approved:?}"
    );
    ensure!(
        cache
            .nodes()
            .await?
            .get(id)
            .context("gone")?
            .approved
            .is_empty(),
        "the cache asked again"
    );
    cache.invalidate();
    let list = cache.nodes().await?;
    let node = list.get(id).context("gone")?;
    ensure!(
        node.approved == approved && node.advertised.is_empty() && node.serving.is_empty(),
        "{node:?}"
    );
    ensure!(
        headscale
            .approve_routes(id, &BTreeSet::new())
            .await?
            .is_empty(),
        "routes are left"
    );

    headscale.expire_node(id).await?;
    let expiry = headscale.nodes().await?.get(id).context("gone")?.expiry;
    ensure!(expiry.is_over(jiff::Timestamp::now()), "{expiry:?}");
    if disable_expiry {
        headscale.disable_expiry(id).await?;
        let expiry = headscale.nodes().await?.get(id).context("gone")?.expiry;
        ensure!(expiry == Expiry::Never, "{expiry:?}");
    } else {
        ensure_matches!(
            headscale.disable_expiry(id).await,
            Error::Unsupported { .. }
        );
        let after = headscale.nodes().await?.get(id).context("gone")?.expiry;
        ensure!(after == expiry, "it was changed: {after:?}");
    }
    headscale.delete_node(id).await?;
    ensure_matches!(headscale.delete_node(id).await, Error::NotFound { .. });
    ensure!(
        headscale.nodes().await?.get(id).is_none(),
        "it is still there"
    );
    Ok(())
}

fn every_call(control: ControlVersion, numbers: (u32, u32), disable_expiry: bool) -> Result<()> {
    let lab = lab(control, Start::LoggedIn)?;
    on_control(&lab, async || {
        server(&lab, numbers).await?;
        keys(&lab).await?;
        policy(&lab).await?;
        unknown_nodes(&lab, disable_expiry).await?;
        nodes(&lab, disable_expiry).await
    })
}

#[test]
fn every_call_and_error_of_headscale_029() -> Result<()> {
    every_call(ControlVersion::V029, (0, 29), true)
}

#[test]
#[ignore = "builds a second Headscale; `cargo xtask test oldest-headscale` runs it, before a pin moves"]
fn every_call_and_error_of_headscale_028() -> Result<()> {
    every_call(ControlVersion::V028, (0, 28), false)
}

#[test]
fn an_advertised_and_approved_prefix_is_served() -> Result<()> {
    let lab = lab(ControlVersion::V029, Start::LoggedIn)?;
    lab.gateway(1)?
        .tailscale(&["set", &format!("--advertise-routes={LAN}")])?
        .ok()?;
    let lan = routes(&[LAN])?;
    let headscale = client(&lab)?;
    lab.wait_until("the prefix at headscale", Duration::from_secs(20), || {
        let list = on_control(&lab, async || Ok(headscale.nodes().await?))?;
        let node = list.with_hostname("gw-1").next().context("no gw-1")?;
        let all = node.advertised == lan && node.approved == lan && node.serving == lan;
        ensure!(all, "{node:?}");
        Ok(Some(()))
    })
}

#[test]
fn a_server_without_a_policy_and_one_with_a_file_are_told_apart() -> Result<()> {
    let lab = lab(ControlVersion::V029, Start::Off)?;
    let headscale = lab.headscale();
    // The lab sets a policy when it starts; a new database has none.
    let config = headscale.node().dir().join("headscale.yaml");
    let text = std::fs::read_to_string(&config)?;
    headscale.stop(Signal::SIGTERM)?;
    let empty = text.replace("db.sqlite", "empty.sqlite");
    ensure!(empty != text, "the configuration has changed its form");
    headscale.node().write("headscale.yaml", &empty)?;
    headscale.start()?;
    let key = headscale.cli(&["apikeys", "create", "--expiration", "24h"])?;
    let key = key.split_whitespace().last().context("no key")?;
    let ours = client_with(&lab, CONTROL_URL, key, true)?;
    on_control(&lab, async || {
        ensure!(ours.policy().await?.is_none(), "there is a policy");
        ensure!(ours.nodes().await?.is_empty(), "there are nodes");
        Ok(())
    })?;

    headscale.stop(Signal::SIGTERM)?;
    let file = headscale.node().write("policy.hujson", DEFAULT_POLICY)?;
    let with_file = format!(r#""mode": "file", "path": {}"#, json!(file));
    let file_mode = text.replace(r#""mode": "database""#, &with_file);
    ensure!(file_mode != text, "the configuration has changed its form");
    headscale.node().write("headscale.yaml", &file_mode)?;
    headscale.start()?;
    let ours = client(&lab)?;
    on_control(&lab, async || {
        let policy = ours.policy().await?.context("no policy")?;
        ensure!(
            policy.text == DEFAULT_POLICY && policy.updated.is_none(),
            "{policy:?}"
        );
        ensure_matches!(ours.set_policy("{}").await, Error::PolicyNotWritable { .. });
        Ok(())
    })?;
    // Stopped, not ended: the connection is taken by the kernel, and nobody answers.
    headscale.signal(Signal::SIGSTOP)?;
    let outcome = on_control(&lab, async || Ok(ours.health().await));
    headscale.signal(Signal::SIGCONT)?;
    ensure_matches!(outcome?, Error::Timeout { .. });
    Ok(())
}
