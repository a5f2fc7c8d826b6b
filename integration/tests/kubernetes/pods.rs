//! Pods: their volumes, and what a StatefulSet does when one is deleted.

use anyhow::Result;
use tsunaro_integration::kube::{BUSYBOX, Part};
use tsunaro_integration::wait_until;

use crate::{Named, POD_READY, Shared, timed};

pub(crate) const TESTS: &[Named] = &[
    (
        "pods::a_restricted_pod_with_a_config_map_a_projected_token_and_an_empty_dir_runs",
        a_restricted_pod_with_volumes_runs,
    ),
    (
        "pods::a_deleted_pod_of_a_stateful_set_comes_back_under_its_name",
        a_deleted_pod_of_a_stateful_set_comes_back,
    ),
];

/// A Pod as restricted as the agent's container, with three kinds of volumes.
const VOLUMES: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: { name: settings }
data: { greeting: hello }
---
apiVersion: v1
kind: Pod
metadata: { name: volumes }
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  containers:
    - name: main
      image: BUSYBOX
      imagePullPolicy: Never
      command: [sh, -c, "cat /settings/greeting; echo; echo kept > /scratch/file; sleep 600"]
      securityContext:
        runAsNonRoot: true
        runAsUser: 65534
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
        seccompProfile: { type: RuntimeDefault }
      readinessProbe: { exec: { command: [test, -f, /scratch/file] }, periodSeconds: 1 }
      volumeMounts:
        - { name: settings, mountPath: /settings }
        - { name: token, mountPath: /token }
        - { name: scratch, mountPath: /scratch }
  volumes:
    - { name: settings, configMap: { name: settings } }
    - { name: scratch, emptyDir: {} }
    - name: token
      projected:
        sources: [{ serviceAccountToken: { path: token, audience: test.example, expirationSeconds: 600 } }]
"#;

fn a_restricted_pod_with_volumes_runs(shared: &Shared) -> Result<()> {
    let node = shared.node()?;
    let started = timed("from apply to a ready Pod");
    node.apply(&VOLUMES.replace("BUSYBOX", BUSYBOX))?;
    node.wait_pod_ready("default", "volumes", POD_READY)?;
    drop(started);

    assert_eq!(node.logs("default", "volumes", "main")?, "hello\n");
    let exec = |command: &str| {
        node.exec("default", "volumes", "main", &["sh", "-c", command])?
            .ok()
    };
    assert_eq!(exec("cat /scratch/file")?, "kept\n");
    assert_eq!(exec("id -u")?, "65534\n");
    let status = exec("grep -E '^(CapEff|Seccomp|NoNewPrivs):' /proc/1/status | tr -s '\\t' ' '")?;
    assert_eq!(
        status,
        "CapEff: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n"
    );
    assert!(
        exec("echo x > /file").is_err(),
        "the root file system is writable"
    );
    // A JSON web token: three parts, of which the first is `{"alg…` in base64.
    let token = exec("cat /token/token")?;
    assert!(
        token.starts_with("eyJ") && token.split('.').count() == 3,
        "{token}"
    );
    assert!(node.pod_ip("default", "volumes")?.starts_with("10.244.1."));

    // kubelet and containerd away and back: the Pod does not notice.
    let uid = node.pod_uid("default", "volumes")?;
    node.restart_part(Part::Containerd)?;
    node.restart_part(Part::Kubelet)?;
    wait_until("an exec after the restarts", POD_READY, || {
        exec("cat /scratch/file").map(Some)
    })?;
    assert_eq!(node.pod_uid("default", "volumes")?, uid);
    let pod = node.get(&["pod", "volumes"])?;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    node.delete("default", &["pod/volumes", "configmap/settings"])
}

const STATEFUL: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: one }
spec:
  serviceName: one
  replicas: 1
  updateStrategy: { type: OnDelete }
  selector: { matchLabels: { app: one } }
  template:
    metadata: { labels: { app: one } }
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - { name: main, image: BUSYBOX, imagePullPolicy: Never, command: [sleep, "600"] }
"#;

fn a_deleted_pod_of_a_stateful_set_comes_back(shared: &Shared) -> Result<()> {
    let node = shared.node()?;
    node.apply(&STATEFUL.replace("BUSYBOX", BUSYBOX))?;
    node.wait_pod_ready("default", "one-0", POD_READY)?;
    let uid = node.pod_uid("default", "one-0")?;
    let recreated = timed("from the deletion to the new Pod, ready");
    node.kubectl(&["delete", "pod", "one-0", "--wait=false"])?
        .ok()?;
    node.wait_pod_recreated("default", "one-0", &uid, POD_READY)?;
    drop(recreated);
    assert_ne!(node.pod_uid("default", "one-0")?, uid);
    node.delete("default", &["statefulset/one"])
}
