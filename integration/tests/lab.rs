//! The lab itself.

use std::time::Duration;

use tsunaro_integration::lab::{LAN, LAN_HOST, Lab, LabOptions, PingMonitor, Start};

#[test]
fn a_peer_pings_a_lan_host_through_a_gateway_that_advertises_the_lan() {
    let lab = Lab::start(LabOptions {
        gateways: [Start::LoggedIn, Start::Off],
        ..LabOptions::default()
    })
    .unwrap();
    let gateway = lab.gateway(1).unwrap();
    let set = ["set", &format!("--advertise-routes={LAN}")];
    gateway.tailscale(&set).unwrap().ok().unwrap();
    lab.wait_until(
        "a ping through the gateway",
        Duration::from_secs(30),
        || lab.peer().ping_once(LAN_HOST).map(Some),
    )
    .unwrap();
    let _ = PingMonitor::start(lab.peer(), LAN_HOST).unwrap();
}
