//! Packages: what their scripts make of programs that are built already, and what `dpkg` makes of the Debian one in a bare root.

use crate::common::Place;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&stderr));
    said
}

/// Whether this is `make test-all`.
fn all() -> bool {
    std::env::var_os("WAVELANE_TEST_ALL").is_some()
}

/// What the script `packaging/KIND/build.sh` makes of the program under test, which stands for both.
fn package(place: &Place, kind: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = place.0.join("built");
    std::fs::create_dir_all(&built).unwrap();
    for program in ["wavelane", "wavelaned"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_wavelane"), built.join(program)).unwrap();
    }
    let mut script = Command::new(root.join(format!("packaging/{kind}/build.sh")));
    script.arg(&built).arg(place.0.join("out")).env("COMPRESS", if all() { "gzip" } else { "none" });
    PathBuf::from(run(&mut script).trim())
}

#[test]
fn the_debian_package_installs_in_a_bare_root() {
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success());
    if let Some(missing) = ["make", "strip", "dpkg-deb"].into_iter().find(|tool| !has(tool)) {
        eprintln!("SKIPPED ({missing} is missing): the Debian package");
        return;
    }
    let place = Place::new("deb");
    let file = package(&place, "deb");
    let about = run(Command::new("dpkg-deb").arg("--info").arg(&file));
    assert!(
        about.contains("Package: wavelane\n") && about.contains(concat!("Version: ", env!("CARGO_PKG_VERSION"), "\n"))
    );
    let list = run(Command::new("dpkg-deb").arg("--contents").arg(&file));
    for (mode, path) in [
        ("drwxr-xr-x", "./"),
        ("-rwxr-xr-x", "./usr/bin/wavelaned"),
        ("-rw-r--r--", "./usr/lib/systemd/system/wavelaned.service"),
        ("-rw-r--r--", "./usr/lib/sysusers.d/wavelane.conf"),
        ("-rw-r--r--", "./usr/share/man/man8/wavelaned.8.gz"),
        ("-rw-r--r--", "./usr/share/man/man1/wavelane-top.1.gz"),
        ("-rw-r--r--", "./usr/share/bash-completion/completions/wavelane"),
        ("drwxr-xr-x", "./etc/wavelane/"),
    ] {
        let is_it = |line: &str| line.starts_with(&format!("{mode} root/root ")) && line.ends_with(&format!(" {path}"));
        assert!(list.lines().any(is_it), "no {mode} {path} in\n{list}");
    }
    // Its files arrive whole: dpkg's own sums.
    let bare = place.0.join("bare");
    run(Command::new("dpkg-deb").arg("--extract").arg(&file).arg(&bare));
    run(Command::new("dpkg-deb").arg("--control").arg(&file).arg(bare.join("DEBIAN")));
    run(Command::new("md5sum").args(["--quiet", "--check", "DEBIAN/md5sums"]).current_dir(&bare));
    for script in ["postinst", "prerm", "postrm"] {
        run(Command::new("sh").arg("-n").arg(bare.join("DEBIAN").join(script)));
    }
    let said = run(Command::new(bare.join("usr/bin/wavelaned")).arg("--version"));
    assert!(said.contains(", wire version "), "{said}");
    let unit = std::fs::read_to_string(bare.join("usr/lib/systemd/system/wavelaned.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/wavelaned --config /etc/wavelane/wavelaned.toml\n"), "{unit}");
    lint(&file);
}

/// Debian's own judge, in `make test-all` where it is installed. The program under test is linked with the system's library, those of a
/// package are not.
fn lint(file: &Path) {
    if !all() {
        return;
    }
    let mut command = Command::new("lintian");
    command.args(["--allow-root", "--fail-on", "error,warning"]);
    command.args(["--suppress-tags", "undeclared-elf-prerequisites,mismatched-override,unused-override"]);
    match command.arg(file).output() {
        Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout)),
        Err(_) => eprintln!("SKIPPED (lintian is missing: apt-get install lintian): lintian of the Debian package"),
    }
}

#[test]
fn the_oci_image_is_whole_and_holds_the_programs_alone() {
    let place = Place::new("oci");
    let file = package(&place, "oci");
    let image = place.0.join("image");
    std::fs::create_dir(&image).unwrap();
    run(Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(&image));
    // The blob of a descriptor, which has the size and the hash that it says.
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let path = image.join("blobs/sha256").join(digest);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), descriptor["size"].as_u64().unwrap());
        assert!(run(Command::new("sha256sum").arg(&path)).starts_with(digest), "{descriptor}");
        path
    };
    let json = |path: &Path| serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(json(&image.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let index = json(&image.join("index.json"));
    // Podman calls the image what stands here, docker what stands in manifest.json.
    let called = &index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"];
    assert_eq!(*called, concat!("wavelane:", env!("CARGO_PKG_VERSION")));
    let manifest = json(&blob(&index["manifests"][0]));
    let config = json(&blob(&manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/wavelaned");
    assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"], "the layer is not compressed");
    let named = json(&image.join("manifest.json"));
    assert_eq!(named[0]["RepoTags"][0], concat!("wavelane:", env!("CARGO_PKG_VERSION")));
    for (name, about) in [(&named[0]["Config"], &manifest["config"]), (&named[0]["Layers"][0], &manifest["layers"][0])]
    {
        assert!(image.join(name.as_str().unwrap()) == blob(about), "{name}");
    }
    let list = run(Command::new("tar").arg("-tvf").arg(blob(&manifest["layers"][0])));
    let files: Vec<&str> = list.lines().filter(|l| l.starts_with('-')).filter_map(|l| l.rsplit(' ').next()).collect();
    assert_eq!(files, ["usr/bin/wavelane", "usr/bin/wavelaned"], "{list}");
    assert!(list.lines().all(|line| line.contains(" 0/0 ")), "{list}");
}

/// The service's script with procd's own functions (procd.sh of OpenWrt) as ones that say what they were called with.
fn under_procd(place: &Place, config: &str, function: &str) -> Output {
    let init = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/openwrt/files/wavelane.init");
    let script = format!(
        "procd_open_instance() {{ echo open; }}; procd_close_instance() {{ echo close; }}; \
         procd_set_param() {{ echo \"$*\"; }}; procd_send_signal() {{ echo signal \"$*\"; }}; \
         logger() {{ shift; echo \"$*\" >&2; }}; . {}; CONFIG={config}; {function}",
        init.display()
    );
    let tools = place.0.join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_wavelane"), tools.join("wavelane"));
    Command::new("sh")
        .arg("-eu")
        .arg("-c")
        .arg(script)
        .env("PATH", format!("{}:/usr/bin:/bin", tools.display()))
        .output()
        .unwrap()
}

#[test]
fn the_openwrt_service_starts_what_is_in_order_and_reloads_it() {
    let place = Place::new("procd");
    let (config, key) = (place.0.join("wavelaned.toml"), "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=");
    let path = config.display().to_string();
    let said =
        |out: &Output| format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let none = under_procd(&place, &path, "start_service");
    assert!(!none.status.success() && said(&none).contains("write it with wavelane init"), "{}", said(&none));
    let mut init = Command::new(env!("CARGO_BIN_EXE_wavelane"));
    init.args(["init", "--name", "ship", "--peer-name", "shore", "--serves", "none", "--peer-key", key, "--dir"]);
    run(init.arg(&place.0));
    let started = run_output(under_procd(&place, &path, "start_service"));
    assert!(started.starts_with("open\n") && started.ends_with("close\n"), "{started}");
    assert!(started.contains(&format!("command /usr/bin/wavelaned --config {path}\n")), "{started}");
    assert!(started.contains("respawn 3600 5 0\n"), "{started}");
    assert_eq!(run_output(under_procd(&place, &path, "reload_service")), "signal wavelane\n");
    // A file that wavelaned would refuse is not started again and again.
    std::fs::write(&config, "[gateway]\nnonsense = 1\n").unwrap();
    let wrong = under_procd(&place, &path, "start_service");
    assert!(
        !wrong.status.success() && said(&wrong).contains("nonsense") && !said(&wrong).contains("open\n"),
        "{}",
        said(&wrong)
    );
}

fn run_output(out: Output) -> String {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The package's recipe, read by make with the few definitions of OpenWrt's build system that it uses.
#[test]
fn the_openwrt_package_holds_both_programs_and_the_service() {
    if Command::new("make").arg("--version").output().is_err() {
        eprintln!("SKIPPED (make is missing): the OpenWrt package");
        return;
    }
    let place = Place::new("openwrt");
    let write = |name: &str, text: &str| {
        let path = place.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "rules.mk",
        "INCLUDE_DIR:=$(TOPDIR)/include\nINSTALL_DIR:=install -d -m0755\nINSTALL_BIN:=install -m0755\nPKG_INSTALL_DIR:=$(TOPDIR)/made\n",
    );
    let cargo = "define Build/Compile/Cargo\n\t@mkdir -p $(PKG_INSTALL_DIR)/bin\n\t@echo $(1) $(2)\n\t@cp $(PROGRAM) $(PKG_INSTALL_DIR)/bin/wavelane\n\t@cp $(PROGRAM) $(PKG_INSTALL_DIR)/bin/wavelaned\nendef\n";
    write("feeds/packages/lang/rust/rust-package.mk", cargo);
    let package = "define BuildPackage\nall:\n\t@echo $(1) $(PKG_VERSION) $(PKG_LICENSE)\n\t$$(call Build/Compile)\n\t@$$(call Package/$(1)/install,$(TOPDIR)/root)\nendef\n";
    write("include/package.mk", package);
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/openwrt");
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(&recipe).arg(format!("TOPDIR={}", place.0.display()));
    let said = run(make.arg(format!("PROGRAM={}", env!("CARGO_BIN_EXE_wavelane"))).arg("all"));
    let first = format!("wavelane {} Apache-2.0\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(said, first + "crates/daemon --locked\ncrates/cli --locked --no-default-features\n");
    let list = run(Command::new("find").arg(place.0.join("root")).args(["-type", "f", "-printf", "%P %m\n"]));
    let mut files: Vec<&str> = list.lines().collect();
    files.sort_unstable();
    assert_eq!(files, ["etc/init.d/wavelane 755", "usr/bin/wavelane 755", "usr/bin/wavelaned 755"]);
    assert!(place.0.join("root/etc/wavelane").is_dir());
}
