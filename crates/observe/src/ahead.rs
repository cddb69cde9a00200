//! One observer on two processors: one reads packets, finds their flows and says
//! which begin and end, the other runs the estimators of TCP flows.
//!
//! The first [goes ahead](crate::Observer::go_ahead) and leaves steps, one of a
//! line of the cache for each packet; the second [follows](Follower::follow) them
//! in their order. So everything comes out as if one had done both: the flows'
//! numbers, which of them make room for others, and when. Flows over UDP stay
//! with the first, as their estimators need the packets themselves.
//!
//! While the two are apart no sample is told, and nobody knows what a flow
//! amounts to before it ends.

use std::fmt;

use narrows_units::Instant;
use narrows_wire::ip;

use crate::config::Config;
use crate::flow::{EcnCounts, End, Estimators, Flow, Passed};
use crate::observer::{Sink, Told};
use crate::prefetch;
use crate::probes::Room;
use crate::sample::Sample;

/// What a packet means to the estimators of a flow, or to whom flows are told.
pub struct Step(What);

enum What {
    /// A segment of the flow at this place.
    Passed(u32, Passed),
    /// The flow's counts are kept over time from now on; those so far.
    Counting(u32, EcnCounts),
    Began(Option<Box<Flow>>, Instant),
    Ended(u32, Option<Box<Flow>>, End, Instant),
}

impl Step {
    pub(crate) fn passed(place: u32, passed: Passed) -> Self {
        Self(What::Passed(place, passed))
    }

    pub(crate) fn counting(place: u32, early: EcnCounts) -> Self {
        Self(What::Counting(place, early))
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            What::Passed(..) => "Passed",
            What::Counting(..) => "Counting",
            What::Began(..) => "Began",
            What::Ended(..) => "Ended",
        })
    }
}

/// Notes what is told for the follower's sink.
impl Told for Vec<Step> {
    fn began_at(&mut self, flow: &Flow, at: Instant) {
        let flow = Some(Box::new(flow.outline()));
        self.push(Step(What::Began(flow, at)));
    }

    fn ended_at(&mut self, place: u32, flow: &mut Flow, why: End, at: Instant) {
        let flow = Some(Box::new(flow.depart()));
        self.push(Step(What::Ended(place, flow, why, at)));
    }
}

/// The estimators of an observer's TCP flows, apart from it.
#[derive(Debug)]
pub struct Follower {
    config: Config,
    /// By the places of flows in the observer's table.
    estimators: Vec<Estimators>,
    samples: Vec<Sample>,
    room: Room,
}

impl Follower {
    /// A follower whose flows share `room`.
    pub(crate) fn new(config: Config, room: Room) -> Self {
        Self {
            config,
            estimators: Vec::new(),
            samples: Vec::with_capacity(64),
            room,
        }
    }

    /// What is left of what its flows share.
    pub(crate) fn into_room(self) -> Room {
        self.room
    }

    fn at(&mut self, place: u32) -> &mut Estimators {
        let place = place as usize;
        if place >= self.estimators.len() {
            self.estimators.resize_with(place + 1, Estimators::default);
        }
        &mut self.estimators[place]
    }

    pub(crate) fn give(&mut self, place: u32, estimators: Estimators) {
        *self.at(place) = estimators;
    }

    pub(crate) fn take(&mut self, place: u32) -> Estimators {
        std::mem::take(self.at(place))
    }

    /// Follows the steps of its observer, in the order in which they were left.
    pub fn follow(&mut self, steps: &mut [Step], sink: &mut impl Sink) {
        if self.estimators.len() < prefetch::FROM as usize {
            steps.iter_mut().for_each(|step| self.step(step, sink));
            return;
        }
        for steps in steps.chunks_mut(prefetch::TOGETHER) {
            let places = steps.iter().filter_map(|step| match step.0 {
                What::Passed(place, _) => self.estimators.get(place as usize),
                _ => None,
            });
            prefetch::estimators(places);
            steps.iter_mut().for_each(|step| self.step(step, sink));
        }
    }

    fn step(&mut self, step: &mut Step, sink: &mut impl Sink) {
        match &mut step.0 {
            What::Passed(place, passed) => {
                self.at(*place);
                let Self {
                    config,
                    estimators,
                    samples,
                    room,
                } = self;
                samples.clear();
                estimators[*place as usize].segment(passed, config, room, samples);
            }
            What::Counting(place, early) => self.at(*place).begin_ledger(early),
            What::Began(flow, at) => {
                if let Some(flow) = flow.take() {
                    sink.began(&flow, *at);
                }
            }
            What::Ended(place, flow, why, at) => {
                if let Some(mut flow) = flow.take() {
                    if flow.protocol() == ip::TCP {
                        flow.estimators = self.take(*place);
                        self.room.give_back(flow.estimators.held());
                    }
                    sink.ended(&flow, *why, *at);
                }
            }
        }
    }
}
