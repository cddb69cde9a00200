//! Flows by their ends: a hash index of 8 bytes a place (open addressing,
//! linear probing, at most three quarters full), flows in chunks that never
//! move, and a list from the most to the least recently seen.

use crate::classify::FlowEnds;
use crate::flow::Flow;

/// Flows in a chunk.
const CHUNK: usize = 1 << 12;
/// No place.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    flow: u32,
}

/// The neighbours of a flow in the list. They are kept apart from the flows: a
/// packet changes those of three flows, and would touch all three.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    newer: u32,
    older: u32,
}

/// The flows of an observer.
#[derive(Debug)]
pub(crate) struct Table {
    seed: u64,
    index: Vec<Slot>,
    chunks: Vec<Vec<Flow>>,
    links: Vec<Neighbours>,
    free: Vec<u32>,
    used: u32,
    newest: u32,
    oldest: u32,
}

impl Table {
    /// An empty table, whose order in memory `seed` decides on.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            index: vec![empty(); 64],
            chunks: Vec::new(),
            links: Vec::new(),
            free: Vec::new(),
            used: 0,
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Flows in the table.
    pub fn len(&self) -> u32 {
        self.used
    }

    pub fn flow(&self, at: u32) -> &Flow {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    pub fn flow_mut(&mut self, at: u32) -> &mut Flow {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    fn link_mut(&mut self, at: u32) -> &mut Neighbours {
        &mut self.links[at as usize]
    }

    /// The flow that was silent longest.
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Calls `with` for each flow.
    pub fn each(&mut self, mut with: impl FnMut(&mut Flow)) {
        let mut at = self.oldest;
        while at != NONE {
            with(self.flow_mut(at));
            at = self.links[at as usize].newer;
        }
    }

    /// Flows from the one that was silent longest to the newest.
    pub fn iter(&self) -> impl Iterator<Item = &Flow> {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let flow = (at != NONE).then(|| self.flow(at))?;
            at = self.links[at as usize].newer;
            Some(flow)
        })
    }

    /// The flow with these ends, now the newest.
    pub fn find(&mut self, ends: &FlowEnds) -> Option<u32> {
        let hash = ends.hash(self.seed);
        let mask = self.index.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let Slot { hash: h, flow } = self.index[place];
            if flow == NONE {
                return None;
            }
            if h == hash && self.flow(flow).ends == *ends {
                self.touch(flow);
                return Some(flow);
            }
            place = (place + 1) & mask;
        }
    }

    fn touch(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.link(at);
        }
    }

    fn link(&mut self, at: u32) {
        let before = std::mem::replace(&mut self.newest, at);
        *self.link_mut(at) = Neighbours {
            newer: NONE,
            older: before,
        };
        if before == NONE {
            self.oldest = at;
        } else {
            self.link_mut(before).newer = at;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Neighbours { newer, older } = self.links[at as usize];
        match newer {
            NONE => self.newest = older,
            n => self.link_mut(n).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            o => self.link_mut(o).newer = newer,
        }
    }

    /// Adds a flow that is not there yet.
    pub fn insert(&mut self, flow: Flow) -> u32 {
        if (self.used as usize + 1) * 4 > self.index.len() * 3 {
            self.grow();
        }
        let hash = flow.ends.hash(self.seed);
        let at = if let Some(at) = self.free.pop() {
            *self.flow_mut(at) = flow;
            at
        } else {
            if self.chunks.last().is_none_or(|c| c.len() == CHUNK) {
                self.chunks.push(Vec::with_capacity(CHUNK));
            }
            let chunk = self.chunks.len() - 1;
            self.chunks[chunk].push(flow);
            self.links.push(Neighbours {
                newer: NONE,
                older: NONE,
            });
            (chunk * CHUNK + self.chunks[chunk].len() - 1) as u32
        };
        self.used += 1;
        self.put(Slot { hash, flow: at });
        self.link(at);
        at
    }

    fn put(&mut self, new: Slot) {
        let mask = self.index.len() - 1;
        let mut place = new.hash as usize & mask;
        while self.index[place].flow != NONE {
            place = (place + 1) & mask;
        }
        self.index[place] = new;
    }

    fn grow(&mut self) {
        let doubled = vec![empty(); self.index.len() * 2];
        for place in std::mem::replace(&mut self.index, doubled) {
            if place.flow != NONE {
                self.put(place);
            }
        }
    }

    /// Takes a flow out. What it held is freed when its place is used again,
    /// or here.
    pub fn remove(&mut self, at: u32) {
        let mask = self.index.len() - 1;
        let mut hole = self.flow(at).ends.hash(self.seed) as usize & mask;
        while self.index[hole].flow != at {
            hole = (hole + 1) & mask;
        }
        // Moves back what probed past the hole.
        let mut place = hole;
        loop {
            place = (place + 1) & mask;
            let Slot { hash, flow } = self.index[place];
            if flow == NONE {
                break;
            }
            let home = hash as usize & mask;
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(hole) & mask {
                self.index[hole] = self.index[place];
                hole = place;
            }
        }
        self.index[hole] = empty();
        self.unlink(at);
        self.flow_mut(at).forget();
        self.free.push(at);
        self.used -= 1;
    }
}

const fn empty() -> Slot {
    Slot {
        hash: 0,
        flow: NONE,
    }
}
