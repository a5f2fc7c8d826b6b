use super::*;

#[test]
fn an_url_is_read_into_host_port_and_security() {
    fn check(text: &str, shown: &str, host: &str, port: u16, plain: bool) {
        let server = ServerUrl::parse(text).unwrap();
        assert_eq!(server.to_string(), shown, "{text}");
        assert_eq!((server.host(), server.port()), (host, port), "{text}");
        assert_eq!(server.is_plaintext(), plain, "{text}");
        assert_eq!(ServerUrl::parse(shown), Ok(server));
    }
    let name = "hs.example.com";
    check(
        "https://hs.example.com",
        "https://hs.example.com",
        name,
        443,
        false,
    );
    check(
        "https://hs.example.com/\n",
        "https://hs.example.com",
        name,
        443,
        false,
    );
    check(
        "https://hs.example.com:443",
        "https://hs.example.com",
        name,
        443,
        false,
    );
    check(
        "https://hs.example.com:8443",
        "https://hs.example.com:8443",
        name,
        8443,
        false,
    );
    check(
        "http://hs.example.com",
        "http://hs.example.com",
        name,
        80,
        true,
    );
    check(
        "http://192.0.2.1:8080/",
        "http://192.0.2.1:8080",
        "192.0.2.1",
        8080,
        true,
    );
    check(
        "https://[2001:db8::1]:8443",
        "https://[2001:db8::1]:8443",
        "2001:db8::1",
        8443,
        false,
    );
    check(
        "https://[2001:db8::1]",
        "https://[2001:db8::1]",
        "2001:db8::1",
        443,
        false,
    );
}

#[test]
fn what_is_no_url_of_a_server_is_refused_with_a_reason() {
    fn check(text: &str, expected: InvalidUrl) {
        assert_eq!(ServerUrl::parse(text), Err(expected), "{text}");
    }
    for text in [
        "",
        "hs.example.com",
        "/api",
        "https://",
        "https://:8443",
        "https://a b",
        "https://a:0",
        "https://a:99999",
    ] {
        check(text, InvalidUrl::NotAUrl);
    }
    check("ftp://hs.example.com", InvalidUrl::Scheme);
    check("unix:///run/headscale.sock", InvalidUrl::NotAUrl);
    check(
        "https://admin:s3cret@hs.example.com",
        InvalidUrl::Credentials,
    );
    check("https://hs.example.com/headscale", InvalidUrl::Path);
    check("https://hs.example.com?x=1", InvalidUrl::Path);
    assert!(!InvalidUrl::Credentials.to_string().contains("s3cret"));
}
