//! Limits within one thread: the in-process device, copying, CRC.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::floor::Floor;
use super::sample::{Sample, Setting, run_delay_ns};
use crate::error::Failure;

/// One sample: nanoseconds for a write of 8 bytes through the least possible device, `DEPTH` at a
/// time.
pub(super) fn in_process<const DEPTH: usize>(setting: &Setting) -> Result<Sample, Failure> {
    let mut floor = Floor::new();
    let mut good = true;
    let sample = timed(setting, |rounds| good &= floor.run::<DEPTH>(rounds, 8));
    if !good {
        // It has no peer and no input: this is a fault of its own.
        return Err(Failure::failed(
            "bench limits: the in-process device refused its own request",
            "this is a defect of softrnic; please report it",
        ));
    }
    Ok(sample.map(|seconds| seconds * 1e9 / DEPTH as f64))
}

/// One sample: GB/s of bytes copied, `size` at a time, from the same place to the same place.
pub(super) fn memcpy(size: usize, setting: &Setting) -> Sample {
    let (source, mut target) = (PageAligned::new(size), PageAligned::new(size));
    let (source, target) = (source.bytes(), target.bytes_mut());
    let sample = timed(setting, |rounds| {
        for _ in 0..rounds {
            copy(source, black_box(&mut *target));
        }
    });
    sample.map(|seconds| size as f64 / seconds / 1e9)
}

/// Not inlined, so that the length is not known to the compiler.
#[inline(never)]
fn copy(source: &[u8], target: &mut [u8]) {
    target.copy_from_slice(source);
}

/// One sample: GB/s of bytes whose CRC-32 was computed, `size` at a time.
pub(super) fn crc32(size: usize, setting: &Setting) -> Sample {
    let source = PageAligned::new(size);
    let source = source.bytes();
    let sample = timed(setting, |rounds| {
        for _ in 0..rounds {
            black_box(crc32fast::hash(black_box(source)));
        }
    });
    sample.map(|seconds| size as f64 / seconds / 1e9)
}

impl Sample {
    fn map(self, change: impl FnOnce(f64) -> f64) -> Self {
        Self { value: change(self.value), ..self }
    }
}

/// Seconds for one round of `work`, which is given more rounds until they take as long as a sample
/// should.
pub(super) fn timed(setting: &Setting, mut work: impl FnMut(u64)) -> Sample {
    let mut rounds = 1;
    loop {
        let waited = run_delay_ns();
        let begun = Instant::now();
        work(rounds);
        let elapsed = begun.elapsed();
        let waited = run_delay_ns().saturating_sub(waited) as f64 / 1e9;
        if elapsed >= setting.time {
            let elapsed = elapsed.as_secs_f64();
            let value = elapsed / rounds as f64;
            return Sample { value, line_ns: None, waited: waited / elapsed };
        }
        rounds = more_rounds(rounds, elapsed, setting.time);
    }
}

/// How many rounds should take a little longer than `wanted`, when `rounds` took `elapsed`.
fn more_rounds(rounds: u64, elapsed: Duration, wanted: Duration) -> u64 {
    const STEP_MAX: u128 = 1000;
    let elapsed_ns = elapsed.as_nanos().max(1);
    let scaled = u128::from(rounds) * (wanted.as_nanos() * 11 / 10) / elapsed_ns;
    let bounded = scaled.min(u128::from(rounds) * STEP_MAX);
    u64::try_from(bounded).unwrap_or(u64::MAX).max(rounds.saturating_mul(2))
}

/// Memory that begins at a page, as a copy of large buffers would have it.
struct PageAligned {
    room: Vec<u8>,
    start: usize,
    size: usize,
}

impl PageAligned {
    const PAGE: usize = 4096;

    fn new(size: usize) -> Self {
        let pattern = (0..=u8::MAX).cycle();
        let room: Vec<u8> = pattern.take(size + Self::PAGE).collect();
        let start = room.as_ptr().align_offset(Self::PAGE).min(Self::PAGE);
        Self { room, start, size }
    }

    fn bytes(&self) -> &[u8] {
        self.room.get(self.start..self.start + self.size).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.room.get_mut(self.start..self.start + self.size).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_grow_towards_the_wanted_time_and_never_stand_still() {
        let ms = Duration::from_millis;
        assert_eq!(more_rounds(100, ms(10), ms(100)), 1100);
        assert_eq!(more_rounds(1, Duration::from_nanos(10), ms(100)), 1000);
        assert_eq!(more_rounds(100, ms(99), ms(100)), 200);
        assert_eq!(more_rounds(5, Duration::ZERO, ms(1)), 5000);
        assert_eq!(more_rounds(u64::MAX, ms(1), ms(2)), u64::MAX);
    }

    #[test]
    fn buffers_begin_at_a_page_and_have_their_size() {
        let mut buffer = PageAligned::new(1024);
        assert_eq!(buffer.bytes().as_ptr().align_offset(4096), 0);
        assert_eq!((buffer.bytes().len(), buffer.bytes_mut().len()), (1024, 1024));
    }

    #[test]
    fn work_of_a_known_length_is_timed_rightly() {
        let cores = Setting::cores().unwrap();
        let setting = Setting { time: Duration::from_millis(20), cores, realtime: false };
        let sample = timed(&setting, |rounds| {
            let end = Instant::now() + Duration::from_micros(100) * u32::try_from(rounds).unwrap();
            while Instant::now() < end {}
        });
        // Nobody else may have the core for longer than we have it ten times.
        assert!((100e-6..1100e-6).contains(&sample.value), "{sample:?}");
    }
}
