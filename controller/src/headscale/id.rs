use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// A text that is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is a number from 1 to 18446744073709551615")]
pub struct InvalidId;

/// A 64-bit id as protobuf's JSON writes it: a string, for JavaScript's sake. A plain number is
/// read too.
fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NonZeroU64, D::Error> {
    struct Digits;
    impl Visitor<'_> for Digits {
        type Value = NonZeroU64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a 64-bit id as a string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<NonZeroU64, E> {
            parse(text).map_err(E::custom)
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<NonZeroU64, E> {
            NonZeroU64::new(number).ok_or_else(|| E::custom(InvalidId))
        }
    }
    deserializer.deserialize_any(Digits)
}

fn parse(text: &str) -> Result<NonZeroU64, InvalidId> {
    // u64 would take a leading plus sign.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidId);
    }
    text.parse().map_err(|_| InvalidId)
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                parse(text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserialize(deserializer).map(Self)
            }
        }
    };
}

id! {
    /// A node's id. Ids are never used again.
    NodeId
}

id! {
    /// A pre-auth key's id. It is no secret.
    KeyId
}

#[cfg(test)]
mod tests;
