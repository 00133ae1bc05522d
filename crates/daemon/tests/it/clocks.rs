//! Times of day that jump. A machine has one, so a library in front of the C library tells the daemon another.

use crate::common::*;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use wavelane_host::netns::ChildEnd;

/// Shifts the time of day by what a file holds. A time stamp of a datagram is shifted by what the clock was when it was read last, as if it
/// had come just before the clock was set.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile int64_t *set;
static volatile int64_t last;
__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("WALL_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) set = at;
    if (fd >= 0) close(fd);
}
static void shift(struct timespec *t, int64_t s) { t->tv_sec += s; }
int clock_gettime(clockid_t id, struct timespec *t) {
    int done = syscall(SYS_clock_gettime, id, t);
    if (!done && id == CLOCK_REALTIME && set) shift(t, last = *set);
    return done;
}
static void stamps(struct msghdr *m, int64_t s) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) shift((struct timespec *)CMSG_DATA(c), s);
}
ssize_t recvmsg(int fd, struct msghdr *m, int flags) {
    int64_t s = last;
    ssize_t got = syscall(SYS_recvmsg, fd, m, flags);
    if (got >= 0) stamps(m, s);
    return got;
}
int recvmmsg(int fd, struct mmsghdr *v, unsigned n, int flags, struct timespec *t) {
    int64_t s = last;
    int got = syscall(SYS_recvmmsg, fd, v, n, flags, t);
    for (int i = 0; i < got; i++) stamps(&v[i].msg_hdr, s);
    return got;
}
"#;

/// One gateway's time of day.
struct WallClock {
    file: std::fs::File,
    path: PathBuf,
    shim: PathBuf,
}

impl WallClock {
    fn new(dir: &Path, name: &str, shim: &Path) -> Self {
        let path = dir.join(format!("{name}.clock"));
        std::fs::write(&path, [0; 8]).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        Self { file, path, shim: shim.into() }
    }
    fn set(&self, seconds: i64) {
        self.file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }
    fn start(&self, world: &World, name: &str, config: &Path) -> Daemon {
        let (mut command, log, control) = daemon_command(config);
        command.env("LD_PRELOAD", &self.shim).env("WALL_CLOCK", &self.path);
        let ns = if name == "a" { &world.a } else { &world.b };
        let child = ns.spawn(command, ChildEnd::Kill).unwrap().unwrap();
        let daemon = Daemon { child, log, control, own_folder: None };
        daemon.wait_log("listens on UDP");
        daemon
    }
}

fn shim(dir: &Path) -> Option<PathBuf> {
    let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
    std::fs::write(&source, SHIM).unwrap();
    let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).status();
    made.is_ok_and(|status| status.success()).then_some(library)
}

fn restarts(of: &Daemon, far: &str) -> usize {
    of.log().matches(&format!("'{far}' has restarted")).count()
}

const YEAR: i64 = 365 * 86_400;

/// Keys, sessions, lanes and timers go by the steady clock; only a start looks at the time of day, and keeps what it saw.
#[test]
fn times_of_day_that_jump_cost_nothing() {
    let _alone = alone();
    if !root_or_skip("times of day that jump") {
        return;
    }
    let world = World::new("clocks");
    let Some(shim) = shim(&world.dir) else {
        eprintln!("SKIPPED (1 test): times_of_day_that_jump_cost_nothing needs a C compiler");
        return;
    };
    world.serve(7, echo);
    let clocks = ["a", "b"].map(|name| WallClock::new(&world.dir, name, &shim));
    let [of_a, of_b] = &clocks;
    of_a.set(-20 * YEAR);
    of_b.set(30 * YEAR);
    let config_b = world.write("b", Outside::V4, "source = \"keep\"", "");
    let config_a = world.write("a", Outside::V4, "", "[intercept]\ninterfaces = [\"lan0\"]");
    let mut b = of_b.start(&world, "b", &config_b);
    let mut a = of_a.start(&world, "a", &config_a);
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    // The library is in front: b is thirty years ahead of this test.
    let compared = wavelane_daemon::commands::check_with(&config_a, "b", None).unwrap();
    assert!(
        compared.text.contains("its clock is 946") && compared.text.contains("ahead of this one"),
        "{}",
        compared.text
    );
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut stream = world.connect(&world.client, "10.3.0.2:7").unwrap();
    std::thread::scope(|scope| {
        let talk = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                says(&mut stream).unwrap();
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        // The last is before 1970.
        let jumps = [1, -1, 0, 3_600, -3_600, 10 * YEAR, -10 * YEAR, 200 * YEAR, 0, -70 * YEAR];
        for (nth, jump) in jumps.into_iter().cycle().take(60).enumerate() {
            clocks[nth % 2].set(jump);
            let before = rounds.load(Ordering::Relaxed);
            wait_for("exchanges", || rounds.load(Ordering::Relaxed) > before + 20 || talk.is_finished());
        }
        stop.store(true, Ordering::Relaxed);
        talk.join().unwrap();
    });
    for daemon in [&a, &b] {
        assert!(daemon.stayed_up(), "{}", daemon.log());
        for lane in &daemon.status().peers[0].lanes {
            assert!(lane.rtt_ms.is_none_or(|rtt| rtt < 60_000.0), "{lane:?}");
        }
    }
    // A start of either at an earlier time than the last is the later one all the same, killed or not.
    for (name, end, at) in [("a", true, -40 * YEAR), ("b", false, -70 * YEAR), ("a", false, -71 * YEAR), ("b", true, 0)]
    {
        let before = if name == "a" { restarts(&b, "a") } else { restarts(&a, "b") };
        let (clock, config, old) = if name == "a" { (of_a, &config_a, &mut a) } else { (of_b, &config_b, &mut b) };
        if end {
            assert_eq!(old.stop(), Some(0));
        } else {
            old.kill();
        }
        clock.set(at);
        *old = clock.start(&world, name, config);
        let (other, far) = if name == "a" { (&b, "a") } else { (&a, "b") };
        wait_for("word of the restart", || restarts(other, far) > before);
        wait_for("both to be up", || [&a, &b].into_iter().all(|of| of.status().peers[0].up));
        wait_for("an exchange", || world.connect(&world.client, "10.3.0.2:7").is_ok_and(|mut s| says(&mut s).is_ok()));
    }
    // real time: 1 s, what may come late
    pause(Duration::from_secs(1));
    for daemon in [&a, &b] {
        assert!(!daemon.log().contains("panic"), "{}", daemon.log());
    }
}
