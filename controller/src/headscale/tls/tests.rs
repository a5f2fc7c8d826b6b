use super::*;

#[test]
fn a_bundle_without_a_certificate_is_refused() {
    for pem in [
        &b""[..],
        b"not PEM",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ] {
        assert_eq!(Trust::only(pem).unwrap_err(), InvalidCaBundle::Empty);
    }
}

#[test]
fn a_broken_certificate_is_named_by_its_number() {
    let pem = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let error = Trust::only(pem).unwrap_err();
    assert!(
        matches!(error, InvalidCaBundle::Certificate { number: 1, .. }),
        "{error:?}"
    );
    let error = Trust::only(b"-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap_err();
    assert!(
        matches!(error, InvalidCaBundle::Certificate { number: 1, .. }),
        "{error:?}"
    );
}

#[test]
fn the_public_authorities_are_built_in() {
    let trust = Trust::public().unwrap();
    assert!(trust.authorities > 100, "{trust:?}");
}

#[test]
fn a_failed_handshake_is_about_the_certificate_the_protocol_or_the_connection() {
    fn check(error: &io::Error, expected: fn(String) -> HandshakeFailure) {
        assert_eq!(HandshakeFailure::from(error), expected(error.to_string()));
    }
    let tls = |error: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let unknown = rustls::CertificateError::UnknownIssuer;
    check(&tls(unknown.into()), HandshakeFailure::Untrusted);
    let garbage = rustls::InvalidMessage::InvalidContentType;
    check(&tls(garbage.into()), HandshakeFailure::NotTls);
    check(
        &io::ErrorKind::ConnectionReset.into(),
        HandshakeFailure::Broken,
    );
}
