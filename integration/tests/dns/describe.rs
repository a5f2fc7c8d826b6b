//! Replies in words.

use tsunaro_integration::wire::{Record, Reply};

use crate::expect::rcode_name;
use crate::text::shorten;

const TYPE_SOA: u16 = 6;
const FLAGS: [(&str, u16); 6] = [
    ("aa", 0x400),
    ("tc", 0x200),
    ("rd", 0x100),
    ("ra", 0x80),
    ("ad", 0x20),
    ("cd", 0x10),
];

/// A reply in one line; of long sections the start.
pub(crate) fn describe(reply: &Reply) -> String {
    let mut text = rcode_name(reply.rcode);
    for (name, mask) in FLAGS {
        if reply.has(mask) {
            text.push(' ');
            text.push_str(name);
        }
    }
    for (section, records) in [
        ("answer", &reply.answer),
        ("authority", &reply.authority),
        ("additional", &reply.additional),
    ] {
        if !records.is_empty() {
            let texts: Vec<String> = records
                .iter()
                .take(5)
                .map(|record| format!("{} {} {}", record.owner, record.ttl, record.typed()))
                .collect();
            let more = if records.len() > 5 { ", …" } else { "" };
            text.push_str(&format!(
                "; {section} {} [{}{more}]",
                records.len(),
                texts.join(", ")
            ));
        }
    }
    if let Some(opt) = &reply.opt {
        text.push_str(&format!(
            "; OPT size {} version {} flags {:#x} options {:?}",
            opt.size, opt.version, opt.flags, opt.options
        ));
    }
    text
}

/// A reply in short, the same whenever the server says the same: no TTLs of
/// answers, sets sorted, the zones as Z and E.
pub(crate) fn brief(reply: &Reply) -> String {
    let mut text = rcode_name(reply.rcode);
    for (name, mask) in FLAGS.into_iter().filter(|(name, _)| *name != "rd") {
        if reply.has(mask) {
            text.push(' ');
            text.push_str(name);
        }
    }
    for (section, records) in [
        ("answer", &reply.answer),
        ("authority", &reply.authority),
        ("additional", &reply.additional),
    ] {
        if records.is_empty() {
            continue;
        }
        let mut texts: Vec<String> = records
            .iter()
            .map(|record| brief_record(section, record))
            .collect();
        texts.sort();
        let list = if texts.len() > 4 {
            format!("{} records", records.len())
        } else {
            texts.join(", ")
        };
        text.push_str(&format!("; {section} {list}"));
    }
    let options: Vec<String> = reply
        .opt
        .iter()
        .flat_map(|opt| &opt.options)
        .map(|(code, _)| code.to_string())
        .collect();
    if !options.is_empty() {
        text.push_str(&format!("; EDNS options {}", options.join(", ")));
    }
    if let Some(opt) = reply
        .opt
        .as_ref()
        .filter(|opt| opt.size != 1232 || opt.version != 0)
    {
        text.push_str(&format!("; OPT size {} version {}", opt.size, opt.version));
    }
    if reply.opt.is_none() {
        text.push_str("; no OPT");
    }
    text
}

fn brief_record(section: &str, record: &Record) -> String {
    if record.rtype == TYPE_SOA {
        let of = format!("SOA of {}", shorten(&record.owner));
        return if section == "authority" {
            format!("{of} TTL {}", record.ttl)
        } else {
            of
        };
    }
    if section == "answer" {
        return shorten(&record.typed());
    }
    format!("{} {}", shorten(&record.owner), shorten(&record.typed()))
}
