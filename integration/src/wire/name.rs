//! Domain names: text to octets and back.

use anyhow::{Context, Result, bail, ensure};

/// Labels that one name may have at most (RFC 1035 §2.3.4: 255 octets).
const MAX_LABELS: usize = 128;

/// The octets of an absolute name without escapes, such as `web.example.org.`.
pub(super) fn encode(text: &str) -> Result<Vec<u8>> {
    let mut octets = Vec::new();
    let labels = text
        .strip_suffix('.')
        .with_context(|| format!("the name \"{text}\" does not end with a dot"))?;
    for label in labels.split('.').filter(|_| !labels.is_empty()) {
        ensure!(!label.is_empty(), "an empty label in \"{text}\"");
        octets.push(u8::try_from(label.len()).context("a label is too long")?);
        octets.extend(label.as_bytes());
    }
    octets.push(0);
    Ok(octets)
}

/// Reads a name at `at`: its labels in presentation form with a final dot, and
/// where the octets after it begin.
pub(super) fn decode(message: &[u8], at: usize) -> Result<(String, usize)> {
    let mut text = String::new();
    let mut position = at;
    let mut end = None;
    for _ in 0..MAX_LABELS {
        let length = *message.get(position).context("a name runs past the end")?;
        match length {
            0 => {
                if text.is_empty() {
                    text.push('.');
                }
                return Ok((text, end.unwrap_or(position + 1)));
            }
            1..=63 => {
                let start = position + 1;
                position = start + usize::from(length);
                let label = message
                    .get(start..position)
                    .context("a label runs past the end")?;
                present(label, &mut text);
                text.push('.');
            }
            0xc0.. => {
                let low = *message
                    .get(position + 1)
                    .context("a pointer runs past the end")?;
                let target = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                ensure!(target < position, "a pointer that does not point back");
                end = end.or(Some(position + 2));
                position = target;
            }
            _ => bail!("a label of the reserved kind {length:#x}"),
        }
    }
    bail!("a name of more than {MAX_LABELS} labels, or a loop of pointers")
}

/// RFC 1035 §5.1: dots and backslashes escaped, other octets as `\DDD`.
fn present(label: &[u8], text: &mut String) {
    for octet in label {
        match octet {
            b'.' | b'\\' => {
                text.push('\\');
                text.push(char::from(*octet));
            }
            0x21..=0x7e => text.push(char::from(*octet)),
            _ => text.push_str(&format!("\\{octet:03}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_wire_and_pointers_are_followed_only_backwards() {
        let octets = encode("WeB.example.org.").unwrap();
        assert_eq!(
            decode(&octets, 0).unwrap(),
            ("WeB.example.org.".to_owned(), 17)
        );
        assert_eq!(decode(&[0], 0).unwrap(), (".".to_owned(), 1));
        let pointed = [3, b'o', b'r', b'g', 0, 1, b'a', 0xc0, 0];
        assert_eq!(decode(&pointed, 5).unwrap(), ("a.org.".to_owned(), 9));
        let odd = [3, b'a', b'.', 7, 0];
        assert_eq!(decode(&odd, 0).unwrap().0, "a\\.\\007.");
        for broken in [&[0xc0, 0][..], &[5, b'a'], &[0x40, 0], &[]] {
            assert!(decode(broken, 0).is_err(), "{broken:?}");
        }
        assert!(encode("relative").is_err());
    }
}
