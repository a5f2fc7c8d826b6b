use super::*;

fn check(text: &str, expected: Result<(), ImageError>) {
    assert_eq!(Image::parse(text).map(drop), expected, "{text}");
}

#[test]
fn a_reference_needs_a_tag_or_a_digest_and_never_latest() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    check("ghcr.io/tailscale/tailscale:v1.102.4", Ok(()));
    check("tailscale:v1.102.4", Ok(()));
    check("registry.example:5000/team/tailscale:1", Ok(()));
    check(&format!("ghcr.io/tailscale/tailscale@{digest}"), Ok(()));
    check(&format!("ghcr.io/tailscale/tailscale:v1@{digest}"), Ok(()));
    check("ghcr.io/tailscale/tailscale", Err(ImageError::Unversioned));
    check(
        "registry.example:5000/tailscale",
        Err(ImageError::Unversioned),
    );
    check(
        "ghcr.io/tailscale/tailscale:latest",
        Err(ImageError::Latest),
    );
    check(
        &format!("ghcr.io/tailscale/tailscale:latest@{digest}"),
        Err(ImageError::Latest),
    );
    for malformed in [
        "",
        "Upper/case:1",
        "a//b:1",
        "a/b:",
        "a b:1",
        "/a:1",
        "a@sha256:12",
        "a@md5:00",
        "a:1@",
        "-a:1",
        "host:port/a:1",
        "host:5000:1",
    ] {
        check(malformed, Err(ImageError::Malformed));
    }
}

#[test]
fn coredns_is_known_by_the_last_part_of_its_repository() {
    for (text, expected) in [
        ("docker.io/coredns/coredns:1.14.7", true),
        ("registry.example:5000/mirror/coredns:1", true),
        ("coredns:1", true),
        ("ghcr.io/example/coredns-plus:1", false),
        ("ghcr.io/coredns/agent:1", false),
    ] {
        assert_eq!(Image::parse(text).unwrap().is_coredns(), expected, "{text}");
    }
}
