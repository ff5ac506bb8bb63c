//! How far a run is, on standard error: a bar where somebody looks, a line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub(crate) struct Meter {
    /// What is under way.
    label: String,
    /// What is counted.
    unit: &'static str,
    is_terminal: bool,
    shown: Option<Instant>,
}

/// Cells of the bar.
const WIDTH: usize = 30;
/// Between two changes of the bar.
const BAR_EVERY: Duration = Duration::from_millis(50);
/// Between two lines.
const LINE_EVERY: Duration = Duration::from_secs(10);

impl Meter {
    pub(crate) fn new(label: &str, unit: &'static str) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { label: label.into(), unit, is_terminal, shown: None }
    }

    /// So many are done; `last` is said where there is room.
    pub(crate) fn show(&mut self, done: usize, total: usize, last: &str) {
        let every = if self.is_terminal { BAR_EVERY } else { LINE_EVERY };
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() >= every);
        if !is_due && done != total {
            return;
        }
        self.shown = Some(Instant::now());
        let (label, unit) = (&self.label, self.unit);
        let line = if self.is_terminal {
            let filled = WIDTH * done / total.max(1);
            let bar = format!("{}{}", "#".repeat(filled), ".".repeat(WIDTH - filled));
            format!("\r\x1b[K{label} [{bar}] {done}/{total} {last}")
        } else {
            format!("{label}: {done} of {total} {unit}\n")
        };
        // Nobody misses a bar that cannot be shown.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    /// The run is over.
    pub(crate) fn finish(&self) {
        if self.is_terminal {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}
