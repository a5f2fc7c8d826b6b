//! Resolves the control server's name, for the check that no advertised prefix holds it.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::event::Event;

/// Names rarely move.
const PAUSE: Duration = Duration::from_secs(300);

/// After a failure.
const RETRY: Duration = Duration::from_secs(15);

/// A resolver that does not answer keeps nobody waiting but this task.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reports the addresses of the host in this URL when they change, until the main loop is gone.
///
/// # Errors
/// When the main loop is gone.
pub(crate) async fn watch(
    mut url: watch::Receiver<Option<String>>,
    events: mpsc::Sender<Event>,
) -> anyhow::Result<()> {
    let mut told = None;
    loop {
        let host = url.borrow_and_update().as_deref().and_then(host_and_port);
        let pause = match host {
            None => PAUSE,
            Some(host) => match resolve(host).await {
                Some(addresses) => {
                    if told.as_ref() != Some(&addresses) {
                        told = Some(addresses.clone());
                        events.send(Event::ControlServer(addresses)).await?;
                    }
                    PAUSE
                }
                None => RETRY,
            },
        };
        tokio::select! {
            changed = url.changed() => changed?,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn resolve(host: (String, u16)) -> Option<Vec<IpAddr>> {
    let found = tokio::time::timeout(TIMEOUT, tokio::net::lookup_host(host)).await;
    let mut addresses: Vec<IpAddr> = found.ok()?.ok()?.map(|address| address.ip()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    Some(addresses)
}

/// The authority of an http or https URL (RFC 3986 §3.2).
fn host_and_port(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let default = if scheme == "http" { 80 } else { 443 };
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (host, default),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_control_url_is_found() {
        for (url, expected) in [
            ("https://hs.example.org", Some(("hs.example.org", 443))),
            (
                "https://hs.example.org:8443/",
                Some(("hs.example.org", 8443)),
            ),
            ("http://192.0.2.1/path?x", Some(("192.0.2.1", 80))),
            ("https://[2001:db8::1]:8443", Some(("2001:db8::1", 8443))),
            ("https://[2001:db8::1]", Some(("2001:db8::1", 443))),
            ("hs.example.org", None),
            ("https://", None),
        ] {
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(host_and_port(url), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn an_address_is_its_own_name_and_a_change_is_told_once() {
        let (url, urls) = watch::channel(Some("https://192.0.2.1".to_owned()));
        let (events_in, mut events) = mpsc::channel(4);
        let mut tasks = crate::tasks::Tasks::new();
        tasks.start("control server's name", watch(urls, events_in));
        for address in ["192.0.2.1", "192.0.2.2"] {
            url.send_replace(Some(format!("https://{address}:8443")));
            let event = tokio::time::timeout(Duration::from_secs(10), async {
                loop {
                    match events.recv().await {
                        Some(Event::ControlServer(got))
                            if got == [address.parse::<IpAddr>().unwrap()] =>
                        {
                            break;
                        }
                        Some(_) => {}
                        None => panic!("the task ended"),
                    }
                }
            });
            event.await.expect("nothing within the deadline");
        }
    }
}
