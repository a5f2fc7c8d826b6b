//! Questions that tests ask from a node: HTTP and DNS.

use anyhow::{Context, Result, bail};

use super::command::Cmd;
use super::node::Node;

impl Node {
    /// GETs a URL from here, waiting at most 5 s: the status and the body.
    pub fn http_get(&self, url: &str) -> Result<(u16, String)> {
        let cmd = Cmd::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--noproxy",
                "*",
                "--max-time",
                "5",
            ])
            .args(["--write-out", "\n%{http_code}", url]);
        let text = self.run(cmd)?.ok()?;
        let (body, status) = text.rsplit_once('\n').context("curl wrote no status")?;
        Ok((status.parse()?, body.to_owned()))
    }

    /// Asks a resolver from here, waiting at most 2 s: the response code, and
    /// the data of the answer section, one record a line in `type data`.
    /// `server` is an address, or an address and a port as in `127.0.0.1@5300`.
    pub fn dns(
        &self,
        server: &str,
        name: &str,
        record_type: &str,
    ) -> Result<(String, Vec<String>)> {
        let server = format!("@{server}");
        let query = ["kdig", &server, name, record_type, "+time=2", "+retry=0"];
        let text = self.run(query)?.ok()?;
        parse_kdig(&text).with_context(|| format!("what kdig wrote: {text}"))
    }
}

fn parse_kdig(text: &str) -> Result<(String, Vec<String>)> {
    let code = text
        .split("status: ")
        .nth(1)
        .and_then(|rest| rest.split(';').next())
        .context("no response code")?;
    let Some((_, after)) = text.split_once(";; ANSWER SECTION:\n") else {
        return Ok((code.to_owned(), Vec::new()));
    };
    let mut records = Vec::new();
    for line in after.lines().take_while(|line| !line.is_empty()) {
        // owner, TTL, class, then type and data
        let mut fields = line.split_whitespace().skip(3);
        let Some(record_type) = fields.next() else {
            bail!("a record of three fields: {line}");
        };
        let data: Vec<&str> = fields.collect();
        records.push(format!("{record_type} {}", data.join(" ")));
    }
    Ok((code.to_owned(), records))
}

#[cfg(test)]
mod tests {
    use super::parse_kdig;

    #[test]
    fn an_answer_of_kdig_is_read_as_its_code_and_records() {
        let text = "\
;; ->>HEADER<<- opcode: QUERY; status: NOERROR; id: 57341
;; Flags: qr aa rd; QUERY: 1; ANSWER: 2; AUTHORITY: 1; ADDITIONAL: 1

;; QUESTION SECTION:
;; www.corp.example.   \t\tIN\tA

;; ANSWER SECTION:
www.corp.example.   \t60\tIN\tCNAME\tweb.corp.example.
web.corp.example.   \t60\tIN\tA\t192.0.2.7

;; AUTHORITY SECTION:
corp.example.       \t300\tIN\tNS\tns.corp.example.
";
        let (code, records) = parse_kdig(text).unwrap();
        assert_eq!(code, "NOERROR");
        assert_eq!(records, ["CNAME web.corp.example.", "A 192.0.2.7"]);
        let none = ";; ->>HEADER<<- opcode: QUERY; status: NXDOMAIN; id: 1\n";
        assert_eq!(parse_kdig(none).unwrap(), ("NXDOMAIN".to_owned(), vec![]));
    }
}
