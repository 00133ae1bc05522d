//! The pool and the limit of flows of a gateway whose owner names none: by the memory and the descriptors that are there for it.

use std::path::{Path, PathBuf};
use wavelane_base::Octets;
use wavelane_gateway::POOL_DEFAULT;
use wavelane_host::caps::file_limit;

/// Divisor of the machine's memory: other programs use it, and a buffer that grew takes up to twice its bytes.
const MACHINE_PART: u64 = 8;
/// Divisor of what the control groups allow, which is for us.
const GROUP_PART: u64 = 4;
/// Bounds of the default: less is too little for one flow over a long path, and more is taken only if it is configured.
const POOL_MIN: u64 = 16 << 20;
/// See [`POOL_MIN`].
const POOL_MAX: u64 = 1 << 30;

/// What a flow takes beside the pool: 12 kB were measured, socket buffers of the kernel's not counted.
const FLOW: u64 = 12 << 10;
/// At least this many flows, however little memory there is.
const FLOWS_MIN: u64 = 256;

/// Descriptors that no connection gets: some 40 for what stands, 64 for clients of the control socket, pipes of the tools that are run.
const FILES_KEPT: u64 = 160;
/// Where there are hardly more, connections get this part of them.
const FILES_PART: u64 = 8;

/// The default pool on this machine.
pub(crate) fn pool_default() -> Octets {
    let (machine, group) = memory();
    pool_for(machine, group)
}

/// The default limit of flows on this machine: `most`, or what a part of the memory as large as the pool's holds, or the descriptors.
pub(crate) fn flows_default(most: usize) -> usize {
    let (machine, group) = memory();
    flows_for(most.min(sockets_for(file_limit())), machine, group)
}

/// How many connections fit beside all else that this process opens, each with a descriptor.
pub(crate) fn sockets_max() -> usize {
    sockets_for(file_limit())
}

fn sockets_for(files: u64) -> usize {
    let left = files.saturating_sub(FILES_KEPT).max(files / FILES_PART).max(1);
    usize::try_from(left).unwrap_or(usize::MAX)
}

/// The machine's memory, and what the control groups allow.
fn memory() -> (Option<u64>, Option<u64>) {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| machine(&text));
    (machine, read(Path::new("/proc/self/cgroup")).and_then(|text| group(&text, read)))
}

fn flows_for(most: usize, machine: Option<u64>, group: Option<u64>) -> usize {
    let parts = [machine.map(|bytes| bytes / MACHINE_PART), group.map(|bytes| bytes / GROUP_PART)];
    let fit = parts.into_iter().flatten().min().map_or(u64::MAX, |bytes| (bytes / FLOW).max(FLOWS_MIN));
    most.min(usize::try_from(fit).unwrap_or(usize::MAX))
}

fn pool_for(machine: Option<u64>, group: Option<u64>) -> Octets {
    let parts = [machine.map(|bytes| bytes / MACHINE_PART), group.map(|bytes| bytes / GROUP_PART)];
    parts.into_iter().flatten().min().map_or(POOL_DEFAULT, |bytes| Octets::new(bytes.clamp(POOL_MIN, POOL_MAX)))
}

/// The machine's memory, from `/proc/meminfo`.
fn machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The least limit of our control group and of all above it, from `/proc/self/cgroup` and the groups' files (version 2 and
/// version 1).
fn group(cgroup: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let limits = cgroup.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (root, file) = match fields.next() {
            Some("") => ("/sys/fs/cgroup", "memory.max"),
            Some(controllers) if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let ours = Path::new(fields.next().unwrap_or("/"));
        let files: Vec<PathBuf> = ours
            .ancestors()
            .map(|group| Path::new(root).join(group.strip_prefix("/").unwrap_or(group)).join(file))
            .collect();
        files
    });
    // "max" is no number, and no limit.
    limits.filter_map(|file| read(&file)?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files<'a>(list: &'a [(&'a str, &'a str)]) -> impl Fn(&Path) -> Option<String> + 'a {
        |path| list.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
    }

    #[test]
    fn the_pool_is_a_share_of_memory_and_cgroup_limit() {
        let mib = |n: u64| Some(n << 20);
        for (machine, group, pool) in [
            (mib(4_096), None, 512 << 20),
            // The unit's limit on a large machine, and a machine that is smaller than its groups allow.
            (mib(65_536), mib(1_024), 256 << 20),
            (mib(1_024), mib(4_096), 128 << 20),
            (mib(64), None, POOL_MIN),
            (mib(1 << 20), None, POOL_MAX),
            (None, None, POOL_DEFAULT.get()),
        ] {
            assert_eq!(pool_for(machine, group).get(), pool, "{machine:?} {group:?}");
        }
    }

    #[test]
    fn the_limit_of_flows_follows_the_descriptors() {
        for (files, flows) in [(524_288, 524_128), (1_024, 864), (256, 96), (64, 8), (1, 1)] {
            assert_eq!(sockets_for(files), flows, "{files}");
        }
    }

    /// What flows take beside a pool that is full, and the pool's bytes twice, fit.
    #[test]
    fn the_limit_of_flows_follows_the_memory() {
        let mib = |n: u64| Some(n << 20);
        for (machine, group, flows) in [
            (mib(65_536), None, 4_096),
            (mib(65_536), mib(64), 1_365),
            (mib(256), None, 2_730),
            (mib(8), None, 256),
            (None, None, 4_096),
        ] {
            assert_eq!(flows_for(4_096, machine, group), flows, "{machine:?} {group:?}");
        }
    }

    #[test]
    fn memory_is_read_from_the_kernels_files() {
        assert_eq!(machine("MemTotal:       24689764 kB\nMemFree: 1 kB\n"), Some(24_689_764 << 10));
        assert_eq!(machine("nonsense"), None);
    }

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let v2 = [
            ("/sys/fs/cgroup/system.slice/wavelaned.service/memory.max", "max\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "1073741824\n"),
            ("/sys/fs/cgroup/memory.max", "2147483648\n"),
        ];
        assert_eq!(group("0::/system.slice/wavelaned.service\n", files(&v2)), Some(1 << 30));
        let v1 = [("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "536870912\n")];
        assert_eq!(group("5:cpu,cpuacct:/box\n4:memory:/box\n0::/\n", files(&v1)), Some(1 << 29));
        assert_eq!(group("0::/\n", files(&[])), None);
    }
}
