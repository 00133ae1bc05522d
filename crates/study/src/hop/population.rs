//! The committed meshes: who hears whom, what links lose, and which links contend.

use sha2::{Digest, Sha256};
use wavelane_base::maths::{exponential, power};

/// See its first lines.
const TEXT: &str = include_str!("population.txt");
/// Of the file: results on another population are not comparable.
const DIGEST: &str = "260d138d28bd131a0e55aba924395b76ff2896ed30acceda28ab7cef6862fb12";
/// Stations of a mesh.
pub(super) const STATIONS: usize = 20;
/// Signals in dBm: from here on a neighbour, sensed and harmful, harmful.
const NEIGHBOUR: i32 = -82;
const SENSED: i32 = -92;
const HARMFUL: i32 = -97;
/// The signal at which a frame has one error on average.
const ONE_ERROR: f64 = -85.0;
/// Links over which less arrives are of no use to anybody.
const DELIVERY_MIN: f64 = 0.1;

/// Twenty stations.
pub(super) struct Mesh {
    pub(super) seed: u64,
    /// In dBm, by pair.
    signals: Vec<Vec<i32>>,
}

/// The share of full frames lost at a signal.
pub(super) fn loss_at(signal: f64) -> f64 {
    1.0 - exponential(-power(10.0, (ONE_ERROR - signal) / 10.0))
}

/// All of them.
///
/// # Errors
/// If the file is not the one that was committed.
pub(super) fn meshes() -> Result<Vec<Mesh>, String> {
    read(TEXT)
}

fn read(text: &str) -> Result<Vec<Mesh>, String> {
    let digest: String = Sha256::digest(text.as_bytes()).iter().map(|octet| format!("{octet:02x}")).collect();
    if digest != DIGEST {
        return Err(format!(
            "the population of the study hop has changed (SHA-256 {digest}, not {DIGEST}): results on it are not comparable; restore population.txt"
        ));
    }
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mesh = |line: &str| {
        let mut parts = line.split(" | ");
        let seed = parts.next()?.parse().ok()?;
        let mut values = parts.nth(1)?.split(' ').map(str::parse::<i32>);
        let mut signals = vec![vec![i32::MIN; STATIONS]; STATIONS];
        for (a, b) in (0..STATIONS).flat_map(|a| (a + 1..STATIONS).map(move |b| (a, b))) {
            let signal = values.next()?.ok()?;
            signals[a][b] = signal;
            signals[b][a] = signal;
        }
        Some(Mesh { seed, signals })
    };
    lines.map(|line| mesh(line).ok_or_else(|| format!("no mesh: {line}"))).collect()
}

impl Mesh {
    /// The share of full frames lost between two stations.
    pub(super) fn loss(&self, a: usize, b: usize) -> f64 {
        loss_at(f64::from(self.signals[a][b]))
    }
    fn is_neighbour(&self, a: usize, b: usize) -> bool {
        self.signals[a][b] >= NEIGHBOUR
    }
    /// Of every pair that hears anything: the `pairs` of a cell.
    pub(super) fn pairs(&self, name: impl Fn(usize) -> String) -> String {
        let mut out = String::new();
        for a in 0..STATIONS {
            for b in a + 1..STATIONS {
                let signal = self.signals[a][b];
                let hear = match signal {
                    NEIGHBOUR.. => format!("\"decode\", loss = \"{:.6}\"", self.loss(a, b)),
                    SENSED.. => "\"sense+interfere\"".into(),
                    HARMFUL.. => "\"interfere\"".into(),
                    _ => continue,
                };
                out += &format!(
                    "{{ between = [\"{}\", \"{}\"], hear = {hear}, signal = \"{signal} dB\" }},\n",
                    name(a),
                    name(b)
                );
            }
        }
        out
    }
    /// The path with the least expected transmissions, as the simulator's routes have it.
    pub(super) fn path(&self, from: usize, to: usize) -> Vec<usize> {
        let mut cost = [f64::INFINITY; STATIONS];
        let mut before = [from; STATIONS];
        let mut over = [false; STATIONS];
        cost[from] = 0.0;
        for _ in 0..STATIONS {
            let open = (0..STATIONS).filter(|at| !over[*at]);
            let Some(at) = open.min_by(|a, b| cost[*a].total_cmp(&cost[*b])) else { break };
            over[at] = true;
            for next in (0..STATIONS).filter(|next| self.is_neighbour(at, *next)) {
                let through = cost[at] + power(1.0 - self.loss(at, next), -2.0);
                if through < cost[next] {
                    cost[next] = through;
                    before[next] = at;
                }
            }
        }
        let mut path = vec![to];
        while let Some(&at) = path.last()
            && at != from
        {
            path.push(before[at]);
        }
        path.reverse();
        path
    }
    /// Whether two transmissions cannot succeed at once: the senders sense each other, or one harms the other's receiver.
    fn contend(&self, (a, b): (usize, usize), (c, d): (usize, usize)) -> bool {
        let shared = a == c || a == d || b == c || b == d;
        shared
            || self.signals[a][c] >= SENSED
            || [(c, b), (a, d)].iter().any(|(from, at)| self.signals[*from][*at] >= HARMFUL)
    }
    /// The greatest airtime of links that contend with one another, in transmissions per packet that arrives.
    pub(super) fn clique(&self, path: &[usize]) -> f64 {
        let links: Vec<(usize, usize)> = path.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let cost = |(a, b): (usize, usize)| 1.0 / (1.0 - self.loss(a, b));
        // A path has few links: every set of them is looked at.
        let sets = 1_u32..1 << links.len();
        let of = |set: u32| -> Option<f64> {
            let chosen: Vec<(usize, usize)> =
                (0..links.len()).filter(|n| set >> n & 1 == 1).map(|n| links[n]).collect();
            let all =
                chosen.iter().enumerate().all(|(n, one)| chosen[n + 1..].iter().all(|two| self.contend(*one, *two)));
            all.then(|| chosen.into_iter().map(cost).sum())
        };
        sets.filter_map(of).fold(0.0, f64::max)
    }
}

/// `most` pairs of all meshes whose paths have two hops and more, evenly out of all of them: the mesh, and the ends.
pub(super) fn far_pairs(meshes: &[Mesh], most: usize) -> Vec<(usize, usize, usize)> {
    let mut all = Vec::new();
    for (number, mesh) in meshes.iter().enumerate() {
        for a in 0..STATIONS {
            all.extend((0..STATIONS).filter(|b| *b != a && !mesh.is_neighbour(a, *b)).map(|b| (number, a, b)));
        }
    }
    spread(&all, most)
}

/// The losses of `most` links, evenly out of all pairs over which more than a tenth arrives, in ascending order.
pub(super) fn link_losses(meshes: &[Mesh], most: usize) -> Vec<f64> {
    let mut all = Vec::new();
    for mesh in meshes {
        for a in 0..STATIONS {
            all.extend((a + 1..STATIONS).map(|b| mesh.loss(a, b)).filter(|loss| 1.0 - loss > DELIVERY_MIN));
        }
    }
    all.sort_by(f64::total_cmp);
    spread(&all, most)
}

fn spread<T: Clone>(all: &[T], most: usize) -> Vec<T> {
    let most = most.min(all.len());
    (0..most).map(|n| all[(2 * n + 1) * all.len() / (2 * most)].clone()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_meshes_are_the_committed_ones_and_connected() {
        let meshes = meshes().unwrap();
        assert_eq!(meshes.iter().map(|mesh| mesh.seed).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
        for mesh in &meshes {
            let far = (1..STATIONS).map(|to| mesh.path(0, to).len() - 1).max().unwrap();
            assert!((2..=8).contains(&far), "{far} hops");
        }
        let losses = link_losses(&meshes, 100);
        assert!(losses.len() == 100 && losses.is_sorted() && losses[99] < 0.9 && losses[0] < 0.01);
        assert_eq!(far_pairs(&meshes, 7).len(), 7);
        assert!(read(&TEXT.replace("-80", "-81")).err().unwrap().contains("not comparable"));
    }

    #[test]
    fn a_path_in_one_cell_is_one_clique() {
        let mesh = &meshes().unwrap()[0];
        let path = mesh.path(0, STATIONS - 1);
        let hops = (path.len() - 1) as f64;
        let clique = mesh.clique(&path);
        assert!(clique >= 1.0 && clique <= hops / (1.0 - 0.4), "{clique} of {hops}");
        assert!((loss_at(-85.0) - 0.632).abs() < 0.001 && loss_at(-100.0) > 0.999 && loss_at(-60.0) < 0.01);
    }
}
