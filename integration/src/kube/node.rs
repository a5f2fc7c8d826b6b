//! A node that lives as long as its value.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;

use super::daemon::Daemon;
use super::handle::KubeHandle;
use super::images;
use super::inside::Inside;
use super::part::Part;
use super::place::{Addresses, NODE_NAME, Place};
use super::{pki, settings};
use crate::lab::run::Run;
use crate::lab::{CONTROL, CONTROL_NAME, Cmd, Lab, Node, Process, cgroups, start, wires};
use crate::{Step, Wait, peers};

/// The node's name in the run: its namespace is `tsl-<id>-kube`.
const MACHINE: &str = "kube";

/// What a node starts with.
#[derive(Debug, Clone, Copy)]
pub struct KubeOptions<'a> {
    /// From 1 to 9; nodes on one lab need one each, for it makes their addresses.
    pub number: u8,
    /// The lab whose bridges it is plugged into.
    pub lab: Option<&'a Lab>,
    /// kubelet's `syncFrequency`, how often it looks at ConfigMaps and Secrets
    /// unasked: a minute by default, as in kubelet.
    pub config_refresh: Duration,
}

impl Default for KubeOptions<'_> {
    fn default() -> Self {
        Self {
            number: 1,
            lab: None,
            config_refresh: Duration::from_secs(60),
        }
    }
}

/// A Kubernetes node on this machine. Dropping it removes all of it; if the
/// process is killed, the node's processes die with it, and the next start of a
/// lab or of a node removes the rest.
#[derive(Debug)]
pub struct KubeNode {
    // First, so that its drop ends all processes at once.
    _holder: Process,
    daemons: Mutex<BTreeMap<Part, Daemon>>,
    handle: KubeHandle,
    // Last, so that its drop finds the processes above ended.
    run: Run,
}

impl Deref for KubeNode {
    type Target = KubeHandle;

    fn deref(&self) -> &KubeHandle {
        &self.handle
    }
}

impl KubeNode {
    /// Starts a node and waits until Pods can run on it. Needs root, Go and the
    /// packages of `apt-packages.txt`.
    pub fn start(options: KubeOptions<'_>) -> Result<Self> {
        let (node, whole) = Self::prepare(options)?;
        node.start_part(Part::Containerd)?;
        node.bring_up()?;
        whole.done();
        Ok(node)
    }

    /// Starts etcd and kube-apiserver alone, and waits until the API answers: nothing runs Pods,
    /// makes a service account or collects garbage. Needs what [`Self::start`] needs.
    pub fn start_control_plane(options: KubeOptions<'_>) -> Result<Self> {
        let (node, whole) = Self::prepare(options)?;
        node.start_api_server()?;
        node.wait_api()?;
        whole.done();
        Ok(node)
    }

    /// The namespaces with all settings in them, and etcd.
    fn prepare(options: KubeOptions<'_>) -> Result<(Self, Step)> {
        let KubeOptions {
            number,
            lab,
            config_refresh,
        } = options;
        let addresses = Addresses::of(number)?;
        start::check_machine()?;
        let kubernetes = peers::ensure_kubernetes()?;
        let run = Run::begin()?;
        let whole = Step::new(format!("start of Kubernetes node {}", run.id()));

        let step = Step::new("  namespaces, etcd");
        let namespace = run.namespace(MACHINE);
        wires::add_namespace(&namespace)?;
        let guest = wires::Guest {
            namespace: namespace.clone(),
            name: format!("kube{number}"),
            internet: addresses.internet.clone(),
            lan: addresses.lan.clone(),
        };
        wires::attach(lab.map(Lab::run), &guest)?;
        let hosts = format!(
            "127.0.0.1 localhost\n::1 localhost\n{} {NODE_NAME}\n{CONTROL} {CONTROL_NAME}\n",
            addresses.lan
        );
        let machine = Node::new(MACHINE, namespace.clone(), run.dir(), &hosts, "")?;
        let place = Place {
            dir: machine.dir().to_owned(),
            addresses,
            cgroup: cgroups::name(run.id()),
        };
        cgroups::make(&place.cgroup)?;
        settings::write(&place, config_refresh)?;
        Inside::link_programs(&place, &kubernetes)?;
        let (inside, holder) = Inside::make(&namespace, &place)?;
        let node = Self {
            _holder: holder,
            daemons: Mutex::default(),
            handle: KubeHandle {
                machine,
                inside,
                place,
                neighbours: lab.map_or_else(Vec::new, |lab| {
                    vec![lab.lan_host().clone(), lab.upstream().node().clone()]
                }),
            },
            run,
        };
        node.start_part(Part::Etcd)?;
        step.done();
        Ok((node, whole))
    }

    /// Makes the certificates and starts kube-apiserver, without waiting for it.
    fn start_api_server(&self) -> Result<()> {
        let step = Step::new("  certificates");
        pki::make(&self.place)?;
        step.done();
        self.start_part(Part::ApiServer)
    }

    fn bring_up(&self) -> Result<()> {
        let api = Step::new("  kube-apiserver");
        self.start_api_server()?;
        let step = Step::new("  images of pause and busybox");
        self.wait_containerd()?;
        self.load_image(&images::pause())?;
        self.load_image(&images::busybox(images::BUSYBOX)?)?;
        step.done();
        self.wait_api()?;
        api.done();
        let step =
            Step::new("  kubelet, controller-manager, scheduler, kube-proxy: the node ready");
        for part in [
            Part::Kubelet,
            Part::ControllerManager,
            Part::Scheduler,
            Part::Proxy,
        ] {
            self.start_part(part)?;
        }
        self.wait_node_ready(Duration::from_secs(90))?;
        // Without its service account no Pod is admitted to a namespace.
        self.wait_for(
            "default",
            "serviceaccount/default",
            "create",
            Duration::from_secs(60),
        )?;
        step.done();
        Ok(())
    }

    /// The run's id, part of all names of this node.
    #[must_use]
    pub fn id(&self) -> &str {
        self.run.id()
    }

    /// Starts a part that does not run, without waiting for it.
    pub fn start_part(&self, part: Part) -> Result<()> {
        let mut daemons = self.daemons();
        if daemons
            .get(&part)
            .is_some_and(|daemon| daemon.check().is_ok())
        {
            bail!("{} runs already", part.name());
        }
        daemons.insert(part, self.inside.spawn(&part.command(&self.place))?);
        Ok(())
    }

    /// Ends a part by a signal, SIGTERM or SIGKILL, and waits for its end.
    pub fn stop_part(&self, part: Part, signal: Signal) -> Result<()> {
        let daemon = self.daemons().remove(&part);
        daemon
            .with_context(|| format!("{} does not run", part.name()))?
            .stop(signal)
    }

    /// Sends a signal to a part, as SIGSTOP or SIGCONT.
    pub fn signal_part(&self, part: Part, signal: Signal) -> Result<()> {
        let daemons = self.daemons();
        let daemon = daemons
            .get(&part)
            .with_context(|| format!("{} does not run", part.name()))?;
        daemon.kill(signal)
    }

    /// Stops a part by SIGTERM and starts it again; waits for kubelet alone.
    pub fn restart_part(&self, part: Part) -> Result<()> {
        self.stop_part(part, Signal::SIGTERM)?;
        self.start_part(part)?;
        if part == Part::Kubelet {
            self.wait_kubelet()?;
        }
        Ok(())
    }

    /// Waits until kubelet answers. It ends when containerd is not ready for it, and is then started
    /// again, as a real node's systemd does.
    fn wait_kubelet(&self) -> Result<()> {
        let curl = Cmd::new("curl").args([
            "--silent",
            "--fail",
            "--max-time",
            "3",
            "http://127.0.0.1:10248/healthz",
        ]);
        Wait::new("kubelet to answer", Duration::from_secs(90))
            .every(Duration::from_millis(200))
            .logs([self.place.file("kubelet.log")])
            .until(|| {
                let ended = {
                    let mut daemons = self.daemons();
                    let ended = daemons
                        .get(&Part::Kubelet)
                        .is_none_or(|daemon| daemon.check().is_err());
                    if ended {
                        daemons.remove(&Part::Kubelet);
                    }
                    ended
                };
                if ended {
                    self.start_part(Part::Kubelet)?;
                }
                self.machine.run(curl.clone())?.ok()?;
                Ok(Some(()))
            })
    }

    /// Waits until kube-apiserver is ready, at most a minute and a half.
    pub fn wait_api(&self) -> Result<()> {
        let ca = self.place.file("ca.pem");
        let curl = Cmd::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--fail",
                "--max-time",
                "3",
                "--cacert",
            ])
            .arg(ca)
            .arg("https://127.0.0.1:6443/readyz");
        self.wait_part(Part::ApiServer, || {
            self.machine.run(curl.clone())?.ok()?;
            Ok(Some(()))
        })
    }

    fn wait_containerd(&self) -> Result<()> {
        let socket = ["ctr", "--address", settings::CONTAINERD_SOCKET, "version"];
        self.wait_part(Part::Containerd, || {
            self.run_inside(socket)?.ok()?;
            Ok(Some(()))
        })
    }

    /// Waits until the node is Ready.
    pub fn wait_node_ready(&self, timeout: Duration) -> Result<()> {
        let ready = self.wait_for(
            "default",
            &format!("node/{NODE_NAME}"),
            "condition=Ready",
            timeout,
        );
        for daemon in self.daemons().values() {
            daemon.check()?;
        }
        ready
    }

    fn wait_part(&self, part: Part, mut probe: impl FnMut() -> Result<Option<()>>) -> Result<()> {
        let mut ended = None;
        let log = self.place.file(&format!("{}.log", part.name()));
        Wait::new(
            format!("{} to answer", part.name()),
            Duration::from_secs(90),
        )
        .every(Duration::from_millis(100))
        .logs([log])
        .until(|| {
            if let Some(daemon) = self.daemons().get(&part)
                && let Err(error) = daemon.check()
            {
                // No use in waiting on: told below.
                ended = Some(error);
                return Ok(Some(()));
            }
            probe()
        })?;
        ended.map_or(Ok(()), Err)
    }

    fn daemons(&self) -> MutexGuard<'_, BTreeMap<Part, Daemon>> {
        self.daemons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
