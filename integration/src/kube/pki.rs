//! The cluster's certificate authority, its certificates, and a kubeconfig for each identity.

use anyhow::{Context, Result};
use serde_json::json;

use super::place::{NODE_NAME, Place};
use crate::lab::certs::openssl;

/// A node that a person plays with may live for some days.
const DAYS: &str = "30";

/// Who may do everything: kubectl, and kube-apiserver towards kubelet.
pub(super) const ADMIN: &str = "admin";

/// Identities as kubeadm makes them: the file's name and the subject.
const CLIENTS: [(&str, &str); 5] = [
    (ADMIN, "/O=system:masters/CN=kubernetes-admin"),
    (
        "kube-controller-manager",
        "/CN=system:kube-controller-manager",
    ),
    ("kube-scheduler", "/CN=system:kube-scheduler"),
    ("kube-proxy", "/CN=system:kube-proxy"),
    ("kubelet", "/O=system:nodes/CN=system:node:node"),
];

/// Makes everything in the node's directory.
pub(super) fn make(place: &Place) -> Result<()> {
    let mut authority = new_certificate("/CN=node-ca", "ca");
    authority
        .extend(["-addext", "keyUsage=critical,keyCertSign,digitalSignature"].map(str::to_owned));
    run(place, &authority)?;

    let addresses = &place.addresses;
    let names = format!(
        "subjectAltName=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,\
         DNS:kubernetes.default.svc.cluster.local,DNS:localhost,DNS:{NODE_NAME},\
         IP:127.0.0.1,IP:{},IP:{}",
        addresses.api, addresses.lan
    );
    let mut server = signed("/CN=kube-apiserver", "apiserver");
    server.extend(["-addext".to_owned(), names]);
    run(place, &server)?;

    for (name, subject) in CLIENTS {
        run(place, &signed(subject, name))?;
        kubeconfig(place, name)?;
    }
    let key = [
        "genpkey",
        "-algorithm",
        "RSA",
        "-pkeyopt",
        "rsa_keygen_bits:2048",
    ];
    openssl(
        &place.dir,
        &[&key[..], &["-out", "service-account.key"]].concat(),
    )
}

fn new_certificate(subject: &str, name: &str) -> Vec<String> {
    let key = format!("{name}.key");
    let certificate = format!("{name}.pem");
    [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        DAYS,
        "-subj",
        subject,
        "-keyout",
        &key,
        "-out",
        &certificate,
    ]
    .map(str::to_owned)
    .into()
}

fn signed(subject: &str, name: &str) -> Vec<String> {
    let mut args = new_certificate(subject, name);
    let by = [
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ];
    args.extend(by.map(str::to_owned));
    args
}

fn run(place: &Place, args: &[String]) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    openssl(&place.dir, &args)
}

fn kubeconfig(place: &Place, user: &str) -> Result<()> {
    // JSON is YAML.
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "node", "cluster": {
            "server": "https://127.0.0.1:6443",
            "certificate-authority": place.file("ca.pem"),
        } }],
        "users": [{ "name": user, "user": {
            "client-certificate": place.file(&format!("{user}.pem")),
            "client-key": place.file(&format!("{user}.key")),
        } }],
        "contexts": [{ "name": "node", "context": { "cluster": "node", "user": user } }],
        "current-context": "node",
    });
    let path = place.kubeconfig(user);
    std::fs::write(&path, serde_json::to_vec_pretty(&config)?)
        .with_context(|| format!("write {}", path.display()))
}
