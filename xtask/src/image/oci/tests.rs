use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;

use super::*;

fn image() -> Image {
    Image {
        name: "registry.example:5000/tsunaro/agent:1.2.3".to_owned(),
        architecture: "arm64",
        created: Timestamp::from_second(1_700_000_000).unwrap(),
        user: "65534:65534",
        entrypoint: vec!["/program".to_owned()],
        command: vec!["run".to_owned()],
        labels: [(
            "org.opencontainers.image.version".to_owned(),
            "1.2.3".to_owned(),
        )]
        .into(),
        files: ["program", "other"]
            .map(|path| File {
                path: path.to_owned(),
                mode: 0o755,
                content: format!("\x7fELF and so on: {path}").into_bytes(),
            })
            .into(),
    }
}

/// Path → (header, content).
fn untar(bytes: &[u8]) -> BTreeMap<String, (Header, Vec<u8>)> {
    let mut archive = tar::Archive::new(bytes);
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        files.insert(
            entry.path().unwrap().display().to_string(),
            (entry.header().clone(), content),
        );
    }
    files
}

/// The blob that a descriptor names; its digest and size must hold.
fn blob(files: &BTreeMap<String, (Header, Vec<u8>)>, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"]
        .as_str()
        .unwrap()
        .strip_prefix("sha256:")
        .unwrap();
    let (_, bytes) = &files[&format!("blobs/sha256/{digest}")];
    assert_eq!(hex(bytes), digest);
    assert_eq!(descriptor["size"], bytes.len());
    bytes.clone()
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn every_digest_from_the_index_down_to_the_file_holds() {
    let archive = image().archive(Compression::best()).unwrap();
    let files = untar(&archive.bytes);
    assert_eq!(json(&files["oci-layout"].1)["imageLayoutVersion"], "1.0.0");
    assert_eq!(
        files.len(),
        2 + 4,
        "oci-layout, index, manifest, config, two layers"
    );

    let index = json(&files["index.json"].1);
    let manifests = index["manifests"].as_array().unwrap();
    assert_eq!(manifests.len(), 1);
    assert_eq!(manifests[0]["digest"], archive.digest);
    assert_eq!(manifests[0]["platform"]["architecture"], "arm64");
    assert_eq!(
        manifests[0]["annotations"]["io.containerd.image.name"],
        "registry.example:5000/tsunaro/agent:1.2.3"
    );
    assert_eq!(
        manifests[0]["annotations"]["org.opencontainers.image.ref.name"],
        "1.2.3"
    );

    let manifest = json(&blob(&files, &manifests[0]));
    let config = json(&blob(&files, &manifest["config"]));
    assert_eq!(config["config"]["User"], "65534:65534");
    assert_eq!(config["config"]["Entrypoint"][0], "/program");
    assert_eq!(config["config"]["Cmd"][0], "run");
    assert_eq!(
        config["config"]["Labels"]["org.opencontainers.image.version"],
        "1.2.3"
    );
    assert_eq!(config["created"], "2023-11-14T22:13:20Z");

    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 2);
    assert_eq!(config["history"].as_array().unwrap().len(), 2);
    for (number, path) in ["program", "other"].into_iter().enumerate() {
        assert_eq!(layers[number]["size"], archive.layers[number]);
        let mut layer = Vec::new();
        GzDecoder::new(blob(&files, &layers[number]).as_slice())
            .read_to_end(&mut layer)
            .unwrap();
        assert_eq!(
            config["rootfs"]["diff_ids"][number],
            format!("sha256:{}", hex(&layer))
        );
        let layer = untar(&layer);
        assert_eq!(layer.len(), 1);
        let (header, content) = &layer[path];
        assert_eq!(*content, format!("\x7fELF and so on: {path}").into_bytes());
        assert_eq!(header.mode().unwrap(), 0o755);
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        assert_eq!(header.mtime().unwrap(), 1_700_000_000);
    }
}

#[test]
fn the_same_image_is_the_same_bytes_and_any_change_another_digest() {
    let first = image().archive(Compression::best()).unwrap();
    assert_eq!(
        first.bytes,
        image().archive(Compression::best()).unwrap().bytes
    );
    let changes: [fn(&mut Image); 6] = [
        |image| image.files[0].content.push(0),
        |image| image.files[0].mode = 0o555,
        |image| image.created = Timestamp::from_second(1_700_000_001).unwrap(),
        |image| image.user = "0:0",
        |image| image.architecture = "amd64",
        |image| image.labels.clear(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut image = image();
        change(&mut image);
        assert_ne!(
            image.archive(Compression::best()).unwrap().digest,
            first.digest,
            "change {number}"
        );
    }
    // The name is the archive's, not the image's.
    let renamed = Image {
        name: "registry.example/other:1".to_owned(),
        ..image()
    }
    .archive(Compression::best())
    .unwrap();
    assert_eq!(renamed.digest, first.digest);
    assert_ne!(renamed.bytes, first.bytes);
}

#[test]
fn a_name_without_a_tag_is_refused() {
    for (name, tag) in [
        ("registry.example:5000/agent", None),
        ("agent", None),
        ("registry.example:5000/agent:v1", Some("v1")),
        ("agent:v1", Some("v1")),
    ] {
        let image = Image {
            name: name.to_owned(),
            ..image()
        };
        assert_eq!(image.tag().ok(), tag, "{name}");
    }
}
