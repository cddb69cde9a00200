//! What is known of a probe while a run goes on.

use narrows_core::EntityId;
use narrows_scenario::Window;
use narrows_units::{Duration, Histogram, Instant};

use super::bins;
use super::bins::{Column, Columns};
use super::one_way::OneWay;

/// Until when an answer may come that is longer under way than any before: so many times the
/// longest round trip. Questions of which the run does not last so long are not judged.
const LONGEST_TIMES: u64 = 2;

/// Answers that come later than this are not waited for: as long as probes themselves wait.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

const COLUMNS: [(&str, Column); 2] = [("rtt_ms", Column::Gauge), ("lost", Column::Counter)];

pub(super) struct ProbeState {
    pub(super) entity: EntityId,
    pub(super) rtt: Histogram,
    pub(super) questions: Questions,
    bin_sum: u64,
    bin_count: u64,
    bin_lost: u64,
    /// Questions and answers.
    pub(super) ways: [OneWay; 2],
    pub(super) columns: Columns,
}

impl ProbeState {
    pub(super) fn new(entity: EntityId, window: Window, end: Instant) -> Self {
        Self {
            entity,
            ways: [(); 2].map(|()| OneWay::new(window)),
            rtt: Histogram::default(),
            questions: Questions::new(window, end),
            bin_sum: 0,
            bin_count: 0,
            bin_lost: 0,
            columns: Columns::new(&COLUMNS),
        }
    }

    /// A question goes out.
    pub(super) fn asked(&mut self, now: Instant) {
        self.questions.asked(now);
    }

    /// An answer comes, `rtt` after its question.
    pub(super) fn answered(&mut self, now: Instant, inside: bool, rtt: Duration) {
        self.questions.answered(now, rtt);
        if inside {
            self.rtt.record(rtt);
        }
        self.bin_sum += rtt.as_nanos();
        self.bin_count += 1;
    }

    /// The probe waits no longer for an answer.
    pub(super) fn given_up(&mut self) {
        self.bin_lost += 1;
    }

    /// Takes the rows so far out of it.
    pub(super) fn take_rows(&mut self) -> Columns {
        let mut columns = std::mem::replace(&mut self.columns, Columns::new(&COLUMNS));
        let [there, back] = &mut self.ways;
        there.declare("there_", &mut columns);
        back.declare("back_", &mut columns);
        columns
    }

    pub(super) fn close_interval(&mut self, interval: usize) {
        let rtt = bins::mean_ms(self.bin_sum, self.bin_count);
        self.columns.push(interval, &[rtt, self.bin_lost as f32]);
        for way in &mut self.ways {
            way.close_interval(interval);
        }
        self.bin_sum = 0;
        self.bin_count = 0;
        self.bin_lost = 0;
    }
}

/// The questions that were sent in the steady window, and their answers, whenever these came.
pub(super) struct Questions {
    window: Window,
    end: Instant,
    longest: Duration,
    /// Questions, and those of them that were answered, which were sent so early that every
    /// answer had its time.
    decided: [u64; 2],
    /// When the others were sent.
    late: [Vec<Instant>; 2],
}

/// What they come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Counted {
    /// Questions of which an answer had time to come.
    pub(super) asked: u64,
    /// Those of them without one.
    pub(super) lost: u64,
}

impl Questions {
    /// Those of a run that lasts until `end`.
    fn new(window: Window, end: Instant) -> Self {
        Self {
            window,
            end,
            longest: Duration::ZERO,
            decided: [0; 2],
            late: Default::default(),
        }
    }

    fn asked(&mut self, sent: Instant) {
        self.count(0, sent);
    }

    fn answered(&mut self, now: Instant, rtt: Duration) {
        self.longest = self.longest.max(rtt);
        self.count(1, now - rtt);
    }

    fn count(&mut self, which: usize, sent: Instant) {
        if !self.window.contains(sent) {
            return;
        }
        match sent + LONGEST_WAIT <= self.end {
            true => self.decided[which] += 1,
            false => self.late[which].push(sent),
        }
    }

    pub(super) fn count_all(&self) -> Counted {
        let patience = (self.longest * LONGEST_TIMES).min(LONGEST_WAIT);
        let in_time = |sent: &&Instant| **sent + patience <= self.end;
        let late = |which: usize| self.late[which].iter().filter(in_time).count() as u64;
        let [asked, answered] = [0, 1].map(|which| self.decided[which] + late(which));
        Counted {
            asked,
            lost: asked.saturating_sub(answered),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// One question each 100 ms of a run of 5 s, of which those from 1 s to 4 s count; each
    /// takes 40 ms there and back, unless it is lost.
    fn counted(lost: impl Fn(u64) -> bool) -> Counted {
        let window = Window {
            from: at(1_000),
            to: at(4_000),
        };
        let mut questions = Questions::new(window, at(5_000));
        for sent in (0..5_000).step_by(100) {
            questions.asked(at(sent));
            if !lost(sent) && sent + 40 < 5_000 {
                questions.answered(at(sent + 40), Duration::from_millis(40));
            }
        }
        questions.count_all()
    }

    /// The probe itself would have given up after 10 s: after the end.
    #[test]
    fn a_question_without_an_answer_is_lost_in_a_short_run_too() {
        assert_eq!(counted(|_| false), Counted { asked: 30, lost: 0 });
        let one_in_three = counted(|sent| sent % 300 == 0);
        assert_eq!(
            one_in_three,
            Counted {
                asked: 30,
                lost: 10
            }
        );
        assert_eq!(
            counted(|_| true),
            Counted {
                asked: 30,
                lost: 30
            }
        );
        // Those before and after the window do not count.
        assert_eq!(counted(|sent| !(1_000..4_000).contains(&sent)).lost, 0);
    }

    #[test]
    fn a_question_whose_answer_is_on_its_way_at_the_end_is_not_lost() {
        let window = Window {
            from: at(0),
            to: at(5_000),
        };
        let mut questions = Questions::new(window, at(5_000));
        for sent in (0..5_000).step_by(100) {
            questions.asked(at(sent));
            if sent + 400 < 5_000 {
                questions.answered(at(sent + 400), Duration::from_millis(400));
            }
        }
        // The last of 800 ms and less are not judged.
        assert_eq!(questions.count_all(), Counted { asked: 43, lost: 0 });
    }

    /// Of a run that lasts ten seconds longer than its window every question is judged.
    #[test]
    fn questions_whose_answers_had_their_time_are_counted_as_they_come() {
        let window = Window {
            from: at(0),
            to: at(20_000),
        };
        let mut questions = Questions::new(window, at(31_000));
        for sent in (0..25_000).step_by(1_000) {
            questions.asked(at(sent));
            if sent % 4_000 != 0 {
                questions.answered(at(sent + 30), Duration::from_millis(30));
            }
        }
        assert_eq!(questions.count_all(), Counted { asked: 20, lost: 5 });
        assert!(questions.late.iter().all(Vec::is_empty));
    }
}
