//! Keeps idle cores from halting while the benchmark measures.
//!
//! A core that halts is woken by an interrupt from another one, which on a virtual machine leaves
//! the guest at both ends: tens of microseconds that the kernel charges to whoever sends a
//! datagram, so at 10,000 queries a second the hypervisor would be most of what is measured. The
//! kernel's interface for this is the PM QoS request in `/dev/cpu_dma_latency`: as long as the
//! file is open, idle cores poll.

use std::fs::{File, OpenOptions};
use std::io::Write as _;

const REQUEST: &str = "/dev/cpu_dma_latency";

/// Whether idle cores halt.
pub(crate) enum Cores {
    /// They poll as long as this lives.
    Awake { _request: File },
    /// As the system has it, and why.
    AsTheyAre(std::io::Error),
}

impl Cores {
    /// Asks the kernel for it, which only root may.
    pub(crate) fn keep_awake() -> Self {
        let microseconds = 0_i32.to_ne_bytes();
        let request = OpenOptions::new().write(true).open(REQUEST);
        match request.and_then(|mut file| file.write_all(&microseconds).map(|()| file)) {
            Ok(file) => Self::Awake { _request: file },
            Err(error) => Self::AsTheyAre(error),
        }
    }

    /// For the line that says where the numbers come from.
    pub(crate) fn said(&self) -> String {
        match self {
            Self::Awake { .. } => "idle cores kept awake".to_owned(),
            Self::AsTheyAre(error) => format!("idle cores may halt ({REQUEST}: {error})"),
        }
    }
}
