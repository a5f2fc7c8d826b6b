//! The images that every node has.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::oci::{OciImage, oci_image};
use crate::peers::Peers;

/// The image of the container that holds a Pod's namespaces.
pub const PAUSE: &str = "lab.test/pause:1";
/// An image with a shell and the usual small programs, for Pods of tests.
pub const BUSYBOX: &str = "lab.test/busybox:1";

const STATIC_BUSYBOX: &str = "/bin/busybox";

pub(super) fn pause() -> OciImage {
    let program = Path::new(STATIC_BUSYBOX);
    oci_image(
        PAUSE,
        &[("/busybox", program)],
        &["/busybox", "sleep", "2147483647"],
    )
}

/// Busybox, with a link for each of its programs, root and nobody, and a /tmp for all.
/// Under another name it is a base for images of a test's own.
pub fn busybox(name: &str) -> Result<OciImage> {
    let output = Command::new(STATIC_BUSYBOX)
        .arg("--list")
        .output()
        .context("run busybox")?;
    if !output.status.success() {
        bail!("`busybox --list`: {}", output.status);
    }
    let mut image = oci_image(
        name,
        &[("/bin/busybox", Path::new(STATIC_BUSYBOX))],
        &["/bin/sh"],
    )
    .directory("/tmp", 0o1777)
    .text(
        "/etc/passwd",
        "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    )
    .text("/etc/group", "root:x:0:\nnogroup:x:65534:\n");
    for applet in String::from_utf8(output.stdout)?
        .lines()
        .filter(|name| *name != "busybox")
    {
        image = image.link(&format!("/bin/{applet}"), "busybox");
    }
    Ok(image)
}

/// A stand-in for the upstream image of tailscale under this name: the pinned programs at the
/// upstream's paths, busybox for the rest of its Alpine, and these certificates where Go looks for
/// the system's.
pub fn tailscale(name: &str, peers: &Peers, certificates: &Path) -> Result<OciImage> {
    let certificates = std::fs::read_to_string(certificates)
        .with_context(|| format!("read {}", certificates.display()))?;
    Ok(busybox(name)?
        .copy("/usr/local/bin/tailscaled", &peers.tailscaled)
        .copy("/usr/local/bin/tailscale", &peers.tailscale)
        .text("/etc/ssl/certs/ca-certificates.crt", &certificates))
}
