//! How far a run is, on standard error: a bar where somebody looks, a line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use softrnic_conformance::runner::Progress;

/// See the module.
pub(super) struct Meter {
    device: String,
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
    pub(super) fn new(device: &str) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { device: device.into(), is_terminal, shown: None }
    }

    /// A case has ended.
    pub(super) fn show(&mut self, progress: &Progress<'_>) {
        let every = if self.is_terminal { BAR_EVERY } else { LINE_EVERY };
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() >= every);
        if !is_due && progress.done != progress.total {
            return;
        }
        self.shown = Some(Instant::now());
        let Progress { done, total, last } = progress;
        let line = if self.is_terminal {
            let filled = WIDTH * done / total.max(&1);
            let bar = format!("{}{}", "#".repeat(filled), ".".repeat(WIDTH - filled));
            format!("\r\x1b[K{} [{bar}] {done}/{total} {}", self.device, last.name)
        } else {
            format!("{}: {done} of {total} cases\n", self.device)
        };
        // Nobody misses a bar that cannot be shown.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    /// The run is over.
    pub(super) fn finish(&self) {
        if self.is_terminal {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}
