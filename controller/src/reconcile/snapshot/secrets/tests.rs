use k8s_openapi::ByteString;

use super::*;

const OURS: &str = "uid-1";
const AT: &str = "2026-12-03T00:00:00.000000007Z";

fn secret(annotations: &[(&str, &str)], data: &[(&str, &str)]) -> Secret {
    let pairs = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Secret {
        metadata: ObjectMeta {
            annotations: Some(pairs.collect()),
            ..ObjectMeta::default()
        },
        data: Some(
            data.iter()
                .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
                .collect(),
        ),
        ..Secret::default()
    }
}

#[test]
fn the_state_secret_is_whose_the_annotation_or_the_receipt_says() {
    let receipt = Receipt::Ours { key: None };
    let cases = [
        (None, &Receipt::Missing, StateSecret::Missing),
        (
            Some(secret(&[(UID, OURS)], &[])),
            &Receipt::Missing,
            StateSecret::Ours { login: false },
        ),
        (
            Some(secret(&[], &[("_current-profile", "x")])),
            &receipt,
            StateSecret::Ours { login: true },
        ),
        (
            Some(secret(&[(UID, "uid-2")], &[])),
            &Receipt::Missing,
            StateSecret::Foreign {
                owner: Some("uid-2".to_owned()),
                empty: true,
            },
        ),
        (
            Some(secret(&[], &[("_machinekey", "x")])),
            &Receipt::Missing,
            StateSecret::Foreign {
                owner: None,
                empty: false,
            },
        ),
    ];
    for (given, receipt, expected) in cases {
        assert_eq!(state_secret(given.as_ref(), OURS, receipt), expected);
    }
}

#[test]
fn the_key_secret_tells_how_far_the_minting_came() {
    let id: KeyId = "7".parse().unwrap();
    let expiration: Timestamp = AT.parse().unwrap();
    let minted: Vec<Timestamp> = vec!["2026-12-02T00:00:00Z".parse().unwrap()];
    let base = [(UID, OURS), (MINTED, "2026-12-02T00:00:00Z nonsense")];
    let with = |more: &[(&str, &str)], data: &[(&str, &str)]| {
        let all: Vec<_> = base.iter().chain(more).copied().collect();
        key_secret(Some(&secret(&all, data)), OURS)
    };
    let minted = || minted.clone();
    assert_eq!(with(&[], &[]), KeySecret::Idle { minted: minted() });
    assert_eq!(
        with(&[(KEY_EXPIRATION, AT)], &[]),
        KeySecret::Intended {
            expiration,
            minted: minted()
        }
    );
    let stored = [(KEY_EXPIRATION, AT), (KEY_ID, "7")];
    assert_eq!(
        with(&stored, &[(AUTH_KEY, "k")]),
        KeySecret::Holding {
            id,
            expiration,
            minted: minted()
        }
    );
    for data in [&[][..], &[(AUTH_KEY, "")]] {
        assert_eq!(
            with(&stored, data),
            KeySecret::Spent {
                id,
                minted: minted()
            }
        );
    }
    assert_eq!(
        key_secret(Some(&secret(&[], &[])), OURS),
        KeySecret::Foreign(None)
    );
    assert_eq!(key_secret(None, OURS), KeySecret::Missing);
}

#[test]
fn a_receipt_counts_for_its_own_gateway_only() {
    let map = |uid: &str| ConfigMap {
        data: Some(BTreeMap::from([
            (RECEIPT_UID.to_owned(), uid.to_owned()),
            (RECEIPT_KEY_ID.to_owned(), "7".to_owned()),
        ])),
        ..ConfigMap::default()
    };
    assert_eq!(
        receipt(Some(&map(OURS)), OURS),
        Receipt::Ours {
            key: Some("7".parse().unwrap())
        }
    );
    assert_eq!(
        receipt(Some(&map("uid-2")), OURS),
        Receipt::Foreign(Some("uid-2".to_owned()))
    );
    assert_eq!(
        receipt(Some(&ConfigMap::default()), OURS),
        Receipt::Foreign(None)
    );
    assert_eq!(receipt(None, OURS), Receipt::Missing);
}
