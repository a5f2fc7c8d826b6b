use super::*;

#[test]
fn an_id_is_a_64_bit_number_from_1_as_text() {
    fn check(text: &str, good: bool) {
        let parsed: Result<NodeId, InvalidId> = text.parse();
        assert_eq!(parsed.is_ok(), good, "{text:?}");
        if let Ok(id) = parsed {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }
    check("1", true);
    check("18446744073709551615", true);
    check("18446744073709551616", false);
    for text in [
        "", "0", "-1", "+1", " 1", "1 ", "0x1", "1.0", "one", "1/../2",
    ] {
        check(text, false);
    }
}

#[test]
fn an_id_is_read_from_json_text_and_from_a_json_number() {
    let read = serde_json::from_str::<KeyId>;
    assert_eq!(
        read(r#""18446744073709551615""#).unwrap().to_string(),
        "18446744073709551615"
    );
    assert_eq!(
        read("18446744073709551615").unwrap().to_string(),
        "18446744073709551615"
    );
    for json in ["0", r#""0""#, "-1", "1.5", "null", r#""""#, "[1]"] {
        assert!(read(json).is_err(), "{json}");
    }
}
