//! The threads that run cases. One that does not come back is given up and replaced; what it was at
//! has failed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{Ended, Options, run_case};
use crate::case::{Case, Verdict};
use crate::world::World;

/// A case that has ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its rule.
    pub rule: String,
    /// Its whole name.
    pub name: String,
    /// How it went.
    pub(super) ended: Ended,
    /// How long it took.
    pub took: Duration,
}

/// How far a run is.
#[derive(Debug)]
pub struct Progress<'a> {
    /// The case that has ended last.
    pub last: &'a Ran,
    /// Cases that have ended.
    pub done: usize,
    /// All cases.
    pub total: usize,
}

/// What the threads share.
struct Work {
    cases: Vec<Case>,
    world: Box<dyn World>,
    next: AtomicUsize,
}

/// What a thread tells.
enum Told {
    Began { worker: usize, case: usize },
    Ended { worker: usize, case: usize, ran: Box<Ran> },
    Gone { worker: usize },
}

/// What each thread is at, since when.
type Under = BTreeMap<usize, Option<(usize, Instant)>>;

pub(super) fn run(
    cases: Vec<Case>,
    world: Box<dyn World>,
    options: &Options,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Vec<Ran> {
    let total = cases.len();
    let work = Arc::new(Work { cases, world, next: AtomicUsize::new(0) });
    let (tell, told) = channel();
    let mut crew = Crew { work, tell, told, under: Under::new(), hired: 0 };
    for _ in 0..options.jobs.clamp(1, total.max(1)) {
        crew.hire();
    }
    let mut results: Vec<Option<Ran>> = (0..total).map(|_| None).collect();
    let mut done = 0;
    while let Some((case, ran)) = crew.next(options.limit) {
        let place = &mut results[case];
        // One that was given up has had its verdict.
        if place.is_none() {
            done += 1;
            progress(&Progress { last: &ran, done, total });
            *place = Some(ran);
        }
    }
    let lost = |case| {
        let why = "the thread that took it did not come back in time".into();
        ran(case, Ended::new(Verdict::Fail(why), Vec::new()), options.limit)
    };
    let places = results.into_iter().zip(&crew.work.cases);
    places.map(|(result, case)| result.unwrap_or_else(|| lost(case))).collect()
}

struct Crew {
    work: Arc<Work>,
    tell: Sender<Told>,
    told: Receiver<Told>,
    /// The threads that are not given up.
    under: Under,
    hired: usize,
}

impl Crew {
    fn hire(&mut self) {
        let worker = self.hired;
        self.hired += 1;
        let (work, tell) = (Arc::clone(&self.work), self.tell.clone());
        let thread = thread::Builder::new().name(format!("cases {worker}"));
        let started = thread.spawn(move || labour(worker, &work, &tell));
        if started.is_ok() {
            self.under.insert(worker, None);
        }
    }

    /// The next case that has ended, or has taken too long; none when all threads are gone.
    fn next(&mut self, limit: Duration) -> Option<(usize, Ran)> {
        while !self.under.is_empty() {
            let began = self.under.values().flatten().map(|(_, began)| *began).min();
            let wait = began.map_or(limit, |began| limit.saturating_sub(began.elapsed()));
            match self.told.recv_timeout(wait) {
                Ok(Told::Began { worker, case }) => {
                    // One that was given up and has come back works on.
                    self.under.insert(worker, Some((case, Instant::now())));
                }
                Ok(Told::Ended { worker, case, ran }) => {
                    if let Some(at) = self.under.get_mut(&worker) {
                        *at = None;
                    }
                    return Some((case, *ran));
                }
                Ok(Told::Gone { worker }) => {
                    self.under.remove(&worker);
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(overdue) = self.give_up(limit) {
                        return Some(overdue);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }

    /// Gives up a thread whose case has taken too long, and hires another one.
    fn give_up(&mut self, limit: Duration) -> Option<(usize, Ran)> {
        let overdue = self.under.iter().find_map(|(worker, at)| {
            let (case, began) = (*at)?;
            (began.elapsed() >= limit).then_some((*worker, case))
        });
        let (worker, number) = overdue?;
        self.under.remove(&worker);
        self.hire();
        let case = &self.work.cases[number];
        let why =
            format!("it did not end within {} s: the device hangs or is dead", limit.as_secs());
        Some((number, ran(case, Ended::new(Verdict::Fail(why), Vec::new()), limit)))
    }
}

fn ran(case: &Case, ended: Ended, took: Duration) -> Ran {
    Ran { rule: case.rule.to_string(), name: case.name(), ended, took }
}

/// What a thread does: one case after the other, until there are no more or nobody listens.
fn labour(worker: usize, work: &Work, tell: &Sender<Told>) {
    loop {
        let number = work.next.fetch_add(1, Ordering::Relaxed);
        let Some(case) = work.cases.get(number) else { break };
        if tell.send(Told::Began { worker, case: number }).is_err() {
            return;
        }
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| run_case(case, &*work.world)));
        let ended = outcome.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("");
            Ended::new(Verdict::Fail(format!("it panicked: {said}")), Vec::new())
        });
        let ran = Box::new(ran(case, ended, began.elapsed()));
        if tell.send(Told::Ended { worker, case: number, ran }).is_err() {
            return;
        }
    }
    // Nobody may listen any more; then it does not matter.
    let _ = tell.send(Told::Gone { worker });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Problem, verbs};
    use crate::stage::Stage;
    use crate::wire::Bench;
    use crate::world::Asked;
    use softrnic_model::profile::Profile;

    /// Has no devices; some of them take for ever to be opened.
    struct Nowhere;

    impl World for Nowhere {
        fn name(&self) -> String {
            "nowhere".into()
        }
        fn profile(&self) -> Option<Profile> {
            None
        }
        fn stage(&self, asked: &Asked) -> Result<Stage, Problem> {
            match asked.profile.map(|profile| profile.name) {
                Some("strict") => loop {
                    thread::park();
                },
                Some("rxe") => panic!("no wings"),
                Some("cx5") => {
                    thread::sleep(Duration::from_millis(300));
                    Err(Problem::NotApplicable("slow".into()))
                }
                _ => Err(Problem::NotApplicable("nothing here".into())),
            }
        }
        fn bench(&self, _: &Asked) -> Result<Box<dyn Bench>, Problem> {
            Err(Problem::Failed("nothing here".into()))
        }
    }

    #[test]
    fn a_case_that_hangs_or_panics_has_failed_and_the_others_go_on() {
        let case = |name: &'static str| verbs("uc/a", name, |_| Ok(()));
        let cases = vec![
            case("first"),
            case("hangs").with_profile(Profile::STRICT),
            case("panics").with_profile(Profile::RXE),
            case("last"),
        ];
        let options = Options { limit: Duration::from_millis(900), jobs: 1 };
        let mut seen = 0;
        let ran = run(cases, Box::new(Nowhere), &options, &mut |progress| seen = progress.done);
        let failed = |at: usize| match &ran[at].ended.verdict {
            Verdict::Fail(why) => why.as_str(),
            Verdict::Pass | Verdict::NotApplicable(_) => "it did not",
        };
        assert_eq!(seen, 4);
        assert_eq!(ran[0].ended.verdict, Verdict::NotApplicable("nothing here".into()));
        assert_eq!(failed(1), "it did not end within 0 s: the device hangs or is dead");
        assert_eq!(failed(2), "it panicked: no wings");
        assert_eq!(ran[3].ended.verdict, ran[0].ended.verdict);
    }

    #[test]
    fn threads_that_come_back_late_lose_no_case() {
        const NAMES: [&str; 8] = ["1", "2", "3", "4", "5", "6", "7", "8"];
        let case =
            |name: &&'static str| verbs("uc/a", *name, |_| Ok(())).with_profile(Profile::CX5);
        let cases: Vec<Case> = NAMES.iter().map(case).collect();
        let options = Options { limit: Duration::from_millis(200), jobs: 2 };
        let ran = run(cases, Box::new(Nowhere), &options, &mut |_| {});
        assert_eq!(ran.len(), NAMES.len());
        assert!(ran.iter().all(|ran| matches!(ran.ended.verdict, Verdict::Fail(_))), "{ran:?}");
    }
}
