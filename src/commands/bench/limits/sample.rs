//! Samples: what one is, the surroundings it is taken in, and how many become a median.

use std::io;
use std::time::Duration;

use super::sys::{self, Cpus};
use crate::error::Failure;

/// Below this time for a cache line to pass from core to core, in ns, the two share a cache.
const NEAR_NS: f64 = 130.0;
/// A sample in which our threads waited for a core for a larger share than this is taken again.
pub(super) const WAITED_MAX: f64 = 0.03;
/// How often a disturbed sample is taken again.
const TRIES: usize = 3;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// The measured value, in the unit of the limit.
    pub(super) value: f64,
    /// Time in ns for a cache line to pass between the two cores just before; `None` where only one
    /// core takes part.
    pub(super) line_ns: Option<f64>,
    /// Share of the time in which a thread of ours was ready and somebody else had its core.
    pub(super) waited: f64,
}

/// How samples are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// How long a sample runs.
    pub(super) time: Duration,
    /// The core of this process, and that of its peer. Equal when there is only one.
    pub(super) cores: (usize, usize),
    /// Whether samples run before all ordinary threads.
    pub(super) realtime: bool,
}

impl Setting {
    /// The first two cores that this process may use, or one twice.
    pub(super) fn cores() -> io::Result<(usize, usize)> {
        let allowed = Cpus::allowed()?;
        let mut numbers = allowed.numbers();
        let first = numbers.next().unwrap_or(0);
        Ok((first, numbers.next().unwrap_or(first)))
    }

    /// Takes one sample on the first core, and puts the thread back as it was.
    pub(super) fn sample(
        &self,
        take: impl FnOnce(&Self) -> Result<Sample, Failure>,
    ) -> Result<Sample, Failure> {
        let before = Cpus::allowed().map_err(failed("learn the allowed cores"))?;
        let core = Cpus::only(self.cores.0).and_then(|core| core.bind_thread());
        core.map_err(failed("bind to a core"))?;
        if self.realtime {
            sys::schedule_realtime(true).map_err(|error| {
                Failure::failed(
                    format!("--realtime: the scheduler refuses: {error}"),
                    "run as root or with CAP_SYS_NICE, or leave --realtime out",
                )
            })?;
        }
        let sample = take(self);
        if self.realtime {
            sys::schedule_realtime(false).map_err(failed("return to ordinary scheduling"))?;
            // Gives the machine back for a moment, and keeps clear of the real-time throttle.
            std::thread::sleep(Duration::from_millis(40));
        }
        before.bind_thread().map_err(failed("return to all cores"))?;
        sample
    }

    /// Takes a sample, and again when it was disturbed; the least disturbed one counts.
    pub(super) fn quiet_sample(
        &self,
        take: impl Fn(&Self) -> Result<Sample, Failure>,
    ) -> Result<Sample, Failure> {
        let mut best = self.sample(&take)?;
        for _ in 1..TRIES {
            if best.waited <= WAITED_MAX {
                break;
            }
            let next = self.sample(&take)?;
            if next.waited < best.waited {
                best = next;
            }
        }
        Ok(best)
    }
}

/// Several samples of the same thing.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<Sample>);

impl Samples {
    /// Adds one.
    pub(super) fn push(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// The median value, and the least and the greatest.
    pub(super) fn median_min_max(&self) -> Option<(f64, f64, f64)> {
        let values = sorted(self.0.iter().map(|sample| sample.value));
        Some((middle(&values)?, *values.first()?, *values.last()?))
    }

    /// The median of the samples during which the cores shared a cache.
    pub(super) fn near(&self) -> Option<f64> {
        self.median_where(|line_ns| line_ns < NEAR_NS)
    }

    /// The median of the samples during which they did not.
    pub(super) fn far(&self) -> Option<f64> {
        self.median_where(|line_ns| line_ns >= NEAR_NS)
    }

    /// The times for a cache line to pass between the cores.
    pub(super) fn line_ns(&self) -> impl Iterator<Item = f64> {
        self.0.iter().filter_map(|sample| sample.line_ns)
    }

    /// The largest share of time lost to others.
    pub(super) fn waited(&self) -> f64 {
        self.0.iter().map(|sample| sample.waited).fold(0.0, f64::max)
    }

    fn median_where(&self, fits: impl Fn(f64) -> bool) -> Option<f64> {
        let fitting = self.0.iter().filter(|sample| sample.line_ns.is_some_and(&fits));
        middle(&sorted(fitting.map(|sample| sample.value)))
    }
}

/// The median, if there is any value.
pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    middle(&sorted(values))
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn middle(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

/// Nanoseconds that this thread has waited for a core since it began; 0 where the kernel does not
/// count them (`/proc/thread-self/schedstat`, second field).
pub(super) fn run_delay_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// An error that says what could not be done.
pub(super) fn failed(doing: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| {
        Failure::failed(
            format!("bench limits: cannot {doing}: {error}"),
            "see whether a container or a security policy forbids it",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[(f64, Option<f64>, f64)]) -> Samples {
        let all = values.iter().map(|&(value, line_ns, waited)| Sample { value, line_ns, waited });
        Samples(all.collect())
    }

    #[test]
    fn near_and_far_have_medians_of_their_own() {
        let all = samples(&[
            (5.0, Some(60.0), 0.0),
            (2.0, Some(200.0), 0.1),
            (4.0, Some(65.0), 0.0),
            (6.0, Some(129.0), 0.0),
            (1.0, Some(130.0), 0.0),
        ]);
        assert_eq!(all.median_min_max(), Some((4.0, 1.0, 6.0)));
        assert_eq!((all.near(), all.far()), (Some(5.0), Some(2.0)));
        assert_eq!((all.count(), all.waited()), (5, 0.1));
    }

    #[test]
    fn one_core_has_neither_near_nor_far_and_no_sample_no_median() {
        let all = samples(&[(5.0, None, 0.0)]);
        assert_eq!((all.near(), all.far(), all.line_ns().count()), (None, None, 0));
        assert_eq!(Samples::default().median_min_max(), None);
    }

    #[test]
    fn a_disturbed_sample_is_taken_again_and_the_quietest_counts() {
        let cores = Setting::cores().unwrap();
        let setting = Setting { time: Duration::ZERO, cores, realtime: false };
        let waits = std::cell::RefCell::new(vec![0.5, 0.1, 0.2]);
        let take = |_: &Setting| {
            let waited = waits.borrow_mut().remove(0);
            Ok(Sample { value: waited, line_ns: None, waited })
        };
        assert_eq!(setting.quiet_sample(take).unwrap().value, 0.1);
        assert!(waits.borrow().is_empty());
        *waits.borrow_mut() = vec![0.01, 0.0];
        assert_eq!(setting.quiet_sample(take).unwrap().value, 0.01);
    }

    #[test]
    fn the_thread_returns_to_the_cores_it_had() {
        let before: Vec<usize> = Cpus::allowed().unwrap().numbers().collect();
        let cores = Setting::cores().unwrap();
        let setting = Setting { time: Duration::ZERO, cores, realtime: false };
        let during = std::cell::RefCell::new(Vec::new());
        setting
            .sample(|_| {
                during.borrow_mut().extend(Cpus::allowed().unwrap().numbers());
                Ok(Sample { value: 1.0, line_ns: None, waited: 0.0 })
            })
            .unwrap();
        assert_eq!(*during.borrow(), [cores.0]);
        assert_eq!(Cpus::allowed().unwrap().numbers().collect::<Vec<_>>(), before);
    }
}
