//! What it costs to touch program memory, beside `memcpy` in the same run.
//!
//! `cargo bench -p softrnic-verbs --bench copy`
#![expect(unsafe_code, reason = "registers memory by address")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use softrnic_model::Memory;
use softrnic_verbs::host_memory::{HostMemory, Mover, Native, probe};

const SIZES: [usize; 6] = [8, 64, 256, 1024, 4096, 65536];
const SAMPLES: u32 = 15;
const SAMPLE: Duration = Duration::from_millis(4);

/// The best of some samples, in nanoseconds a call.
fn time<R>(mut call: impl FnMut() -> R) -> f64 {
    let mut calls = 1_u32;
    let mut best = f64::MAX;
    for _ in 0..SAMPLES {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(call());
        }
        let spent = start.elapsed();
        best = best.min(spent.as_secs_f64() * 1e9 / f64::from(calls));
        if spent < SAMPLE {
            calls = calls.saturating_mul(2);
        }
    }
    best
}

fn table<M: Mover>(name: &str, private: &mut [u8], program: &mut [u8]) {
    let mut memory = HostMemory::<M>::new();
    // SAFETY: the slice outlives the table and is not used until then.
    let id = unsafe { memory.add(program.as_mut_ptr(), program.len(), None) };
    let Ok(id) = id else { return };
    // As the device sees it.
    let memory: &dyn Memory = black_box(&memory);
    for (what, skew) in [("aligned", 0), ("private side + 4", 4)] {
        print!("{name:10} {what:16}");
        for len in SIZES {
            let write = time(|| memory.write(id, 0, &private[skew..skew + len]));
            let private = &mut private[skew..skew + len];
            let read = time(|| memory.read(id, 0, private));
            print!(" {write:8.1} {read:8.1}");
        }
        println!();
    }
    let add = time(|| memory.fetch_add(id, 8, 1));
    println!("{name:10} fetch_add         {add:8.1}");
}

fn main() {
    let mut private = vec![1_u8; 1 << 17];
    let mut program = vec![2_u8; 1 << 17];
    let skip = program.as_ptr().align_offset(4096);
    let program = &mut program[skip..];
    let skip = private.as_ptr().align_offset(4096);
    let private = &mut private[skip..];

    print!("ns: write read, bytes      ");
    SIZES.iter().for_each(|len| print!(" {len:17}"));
    print!("\n{:27}", "memcpy");
    for len in SIZES {
        let both = time(|| black_box(&mut *program)[..len].copy_from_slice(&private[..len]));
        print!(" {both:8.1} {:8}", "");
    }
    println!();
    table::<Native>("native", private, program);
    table::<softrnic_verbs::host_memory::Atomics>("atomics", private, program);
    #[cfg(target_os = "linux")]
    table::<softrnic_verbs::host_memory::ProcessVm>("process_vm", private, program);

    let judged = time(|| probe(program.as_ptr(), program.len(), true));
    println!("probe of a range  {judged:8.1}");
}
