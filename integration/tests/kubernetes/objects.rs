//! Custom resources.

use std::time::Duration;

use anyhow::Result;
use tsunaro_integration::kube::KubeNode;

use crate::{Named, Shared};

pub(crate) const TESTS: &[Named] = &[(
    "objects::a_custom_resource_is_applied_by_server_side_apply_and_its_rules_are_enforced",
    a_custom_resource_is_applied_and_its_rules_are_enforced,
)];

const CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: things.test.example }
spec:
  group: test.example
  scope: Cluster
  names: { plural: things, singular: thing, kind: Thing }
  versions:
    - name: v1
      served: true
      storage: true
      subresources: { status: {} }
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties: { address: { type: string, maxLength: 20 } }
              x-kubernetes-validations:
                - { rule: "!isCIDR(self.address) || cidr(self.address).prefixLength() > 0", message: not the default route }
            status:
              type: object
              x-kubernetes-preserve-unknown-fields: true
"#;

fn a_custom_resource_is_applied_and_its_rules_are_enforced(shared: &Shared) -> Result<()> {
    let node = shared.node()?;
    node.apply(CRD)?;
    let name = "customresourcedefinition/things.test.example";
    node.wait_for(
        "default",
        name,
        "condition=Established",
        Duration::from_secs(30),
    )?;
    let thing = |address: &str| {
        format!(
            "{{apiVersion: test.example/v1, kind: Thing, metadata: {{name: a}}, spec: {{address: '{address}'}}}}"
        )
    };
    node.apply(&thing("192.0.2.0/24"))?;
    // The same again changes nothing.
    let version = |node: &KubeNode| -> Result<_> {
        Ok(node.get(&["thing", "a"])?["metadata"]["resourceVersion"].clone())
    };
    let before = version(node)?;
    node.apply(&thing("192.0.2.0/24"))?;
    assert_eq!(version(node)?, before);
    let refused = node.apply(&thing("0.0.0.0/0")).unwrap_err().to_string();
    assert!(refused.contains("not the default route"), "{refused}");
    let managers = node.get(&["thing", "a", "--show-managed-fields"])?;
    assert_eq!(
        managers["metadata"]["managedFields"][0]["operation"],
        "Apply"
    );
    node.delete("default", &[name])
}
