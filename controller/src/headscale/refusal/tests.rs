use http::HeaderValue;

use super::*;

fn at() -> At {
    At {
        server: "https://hs.example.com".into(),
        request: "GET /x".to_owned(),
    }
}

fn node_call() -> Endpoint {
    Endpoint::DeleteNode("7".parse().unwrap())
}

fn read(endpoint: Endpoint, status: u16, body: &str) -> Error {
    let status = StatusCode::from_u16(status).unwrap();
    refusal(
        at(),
        endpoint,
        status,
        &HeaderMap::new(),
        body.as_bytes(),
        "s3cret",
    )
}

/// grpc-gateway's form, with the code of an unspecified error.
fn grpc(message: &str) -> String {
    serde_json::json!({ "code": 2, "message": message, "details": [] }).to_string()
}

fn problem(status: u16, title: &str, detail: &str) -> String {
    serde_json::json!({
        "$schema": "https://hs.example.com/schemas/ErrorModel.json",
        "title": title, "status": status, "detail": detail,
    })
    .to_string()
}

fn name(error: &Error) -> &'static str {
    match error {
        Error::NotFound { .. } => "NotFound",
        Error::Conflict { .. } => "Conflict",
        Error::Unauthorized { .. } => "Unauthorized",
        Error::InvalidTag { .. } => "InvalidTag",
        Error::Rejected { .. } => "Rejected",
        Error::PolicyNotWritable { .. } => "PolicyNotWritable",
        Error::Unsupported { .. } => "Unsupported",
        Error::Unavailable { .. } => "Unavailable",
        Error::Timeout { .. } => "Timeout",
        Error::Untrusted { .. } => "Untrusted",
        Error::NotHeadscale { .. } => "NotHeadscale",
        Error::TooLarge { .. } => "TooLarge",
        Error::Internal { .. } => "Internal",
        Error::Decode { .. } => "Decode",
    }
}

fn check(endpoint: Endpoint, status: u16, body: &str, expected: &str) {
    let error = read(endpoint, status, body);
    assert_eq!(
        name(&error),
        expected,
        "{endpoint} {status} {body}: {error}"
    );
}

#[test]
fn an_object_that_is_not_there_is_told_in_every_form() {
    check(node_call(), 404, &grpc("node not found"), "NotFound");
    check(
        node_call(),
        400,
        &grpc("node no longer exists in NodeStore: 7"),
        "NotFound",
    );
    check(
        node_call(),
        500,
        &grpc("node no longer exists in NodeStore: 7"),
        "NotFound",
    );
    check(
        node_call(),
        404,
        &problem(404, "Not Found", "node not found"),
        "NotFound",
    );
    check(
        Endpoint::ExpireKey,
        404,
        &problem(404, "Not Found", "auth-key not found"),
        "NotFound",
    );
    check(
        Endpoint::ExpireKey,
        500,
        &grpc("record not found"),
        "NotFound",
    );
    check(
        Endpoint::Policy,
        500,
        &grpc("loading ACL from database: acl policy not found"),
        "NotFound",
    );
    check(
        Endpoint::Policy,
        404,
        &problem(404, "Not Found", "acl policy not found"),
        "NotFound",
    );
}

#[test]
fn a_path_that_is_not_there_is_no_missing_object() {
    check(node_call(), 404, "404 page not found", "NotHeadscale");
    check(node_call(), 404, "<html>nginx</html>", "NotHeadscale");
    check(
        node_call(),
        404,
        r#"{"code":5,"message":"Not Found","details":[]}"#,
        "NotHeadscale",
    );
    check(node_call(), 404, "{}", "NotHeadscale");
    check(
        Endpoint::Nodes,
        404,
        &grpc("node not found"),
        "NotHeadscale",
    );
    check(Endpoint::Nodes, 405, "Method Not Allowed", "NotHeadscale");
    check(
        Endpoint::Nodes,
        400,
        "Client sent an HTTP request to an HTTPS server.\n",
        "NotHeadscale",
    );
}

#[test]
fn what_a_person_has_to_change_is_told_apart() {
    let tag = grpc("tag must start with the string 'tag:'");
    check(Endpoint::MintKey, 400, &tag, "InvalidTag");
    check(Endpoint::MintKey, 500, &tag, "InvalidTag");
    for spaces in [
        "tag should not contains space",
        "tags must not contain spaces",
    ] {
        check(Endpoint::MintKey, 400, &grpc(spaces), "InvalidTag");
    }
    check(
        Endpoint::SetPolicy,
        500,
        &grpc("setting policy: tag must start with tag:"),
        "Rejected",
    );
    check(
        Endpoint::MintKey,
        500,
        &grpc("auth-key must be either tagged or owned by user"),
        "Rejected",
    );
    check(
        Endpoint::SetPolicy,
        500,
        &grpc("setting policy: parsing policy: hujson: line 1"),
        "Rejected",
    );
    check(
        Endpoint::SetPolicy,
        422,
        &problem(422, "Unprocessable Entity", "bad"),
        "Rejected",
    );
    let file = grpc("update is disabled for modes other than 'database'");
    check(Endpoint::SetPolicy, 500, &file, "PolicyNotWritable");
    check(Endpoint::Nodes, 401, "Unauthorized", "Unauthorized");
    check(Endpoint::Nodes, 403, "<html>", "Unauthorized");
    check(
        node_call(),
        409,
        &problem(409, "Conflict", "in use"),
        "Conflict",
    );
    check(node_call(), 500, &grpc("name already exists"), "Conflict");
}

#[test]
fn what_passes_by_itself_is_told_apart_from_what_does_not() {
    for status in [429, 502, 503, 504] {
        check(Endpoint::Nodes, status, "<html>", "Unavailable");
    }
    check(
        Endpoint::Nodes,
        500,
        &grpc("database is locked (5) (SQLITE_BUSY)"),
        "Unavailable",
    );
    check(Endpoint::Health, 500, r#"{"status":"fail"}"#, "Unavailable");
    check(Endpoint::Nodes, 500, "", "Internal");
    check(
        Endpoint::Nodes,
        500,
        &grpc("no such table: nodes"),
        "Internal",
    );
    check(
        Endpoint::Nodes,
        501,
        &grpc("Method Not Allowed"),
        "Internal",
    );
    check(Endpoint::Nodes, 302, "", "NotHeadscale");
}

#[test]
fn a_server_that_asks_to_be_left_alone_is_heard_for_five_minutes_at_most() {
    fn asked(value: &str) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(value).unwrap());
        let status = StatusCode::TOO_MANY_REQUESTS;
        let error = refusal(at(), Endpoint::Nodes, status, &headers, b"", "");
        error.retry_after().map(|wait| wait.as_secs())
    }
    assert_eq!(asked("7"), Some(7));
    assert_eq!(asked("100000"), Some(300));
    assert_eq!(asked("Wed, 21 Oct 2026 07:28:00 GMT"), None);
    assert_eq!(asked("-1"), None);
}

#[test]
fn words_of_a_problem_are_its_detail_and_errors_without_the_values() {
    let body = r#"{"title":"Unprocessable Entity","detail":"validation failed",
        "errors":[{"message":"expected string","location":"body.key","value":"v4lue"},
        {"message":"also bad"}]}"#;
    let text = read(Endpoint::MintKey, 422, body).to_string();
    assert!(
        text.contains("validation failed; body.key: expected string; also bad"),
        "{text}"
    );
    assert!(!text.contains("v4lue"), "{text}");
}

#[test]
fn no_key_gets_from_the_servers_words_into_the_error() {
    for body in [
        "bad s3cret",
        &grpc("bad s3cret hskey-auth-a-b"),
        &problem(400, "t", "s3cret"),
    ] {
        for status in [302, 400, 404, 409, 500, 503] {
            let error = read(node_call(), status, body);
            let text = format!("{error} {error:?}");
            assert!(
                !text.contains("s3cret") && !text.contains("hskey-auth-a"),
                "{text}"
            );
        }
    }
    let mut headers = HeaderMap::new();
    headers.insert(
        LOCATION,
        HeaderValue::from_static("https://evil.example/?k=s3cret"),
    );
    let error = refusal(
        at(),
        Endpoint::Nodes,
        StatusCode::FOUND,
        &headers,
        b"",
        "s3cret",
    );
    assert!(
        error.to_string().contains("evil.example/?k=[redacted]"),
        "{error}"
    );
}

#[test]
fn every_error_names_the_server_and_the_request() {
    for status in [302, 400, 401, 404, 409, 500, 503] {
        let text = read(node_call(), status, &grpc("x")).to_string();
        assert!(
            text.starts_with("GET /x at Headscale https://hs.example.com: "),
            "{text}"
        );
    }
}
