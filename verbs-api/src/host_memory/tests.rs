//! What a table of program memory promises, for every mover where it applies.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::ptr;
use std::thread;

use super::*;

/// Pages of an anonymous or file mapping, unmapped at the end.
struct Mapping {
    base: *mut u8,
    len: usize,
}

const PAGE: usize = 4096;
const FILE_PAGE: libc::off_t = 4096;

// SAFETY: tests share it between threads for accesses that may race.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(pages: usize) -> Self {
        Self::of(pages * PAGE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)
    }

    fn of(len: usize, flags: i32, file: i32) -> Self {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel likes.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, file, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        Self { base: base.cast(), len }
    }

    fn protect(&self, page: usize, rights: i32) {
        let at = self.base.wrapping_add(page * PAGE);
        // SAFETY: pages of this mapping, to which no reference exists.
        assert_eq!(unsafe { libc::mprotect(at.cast(), PAGE, rights) }, 0);
    }

    fn unmap(&self, page: usize) {
        let at = self.base.wrapping_add(page * PAGE);
        // SAFETY: pages of this mapping, to which no reference exists.
        assert_eq!(unsafe { libc::munmap(at.cast(), PAGE) }, 0);
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        assert!(offset < self.len);
        // SAFETY: within the mapping; tests ask only where it is accessible.
        unsafe { AtomicU8::from_ptr(self.base.add(offset)) }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= self.len && offset.is_multiple_of(8));
        // SAFETY: within the mapping, aligned; tests ask only where it is accessible.
        unsafe { AtomicU64::from_ptr(self.base.add(offset).cast()) }
    }

    fn table<M: Mover>(&self) -> (HostMemory<M>, MemoryId) {
        let mut table = HostMemory::new();
        // SAFETY: tests touch the mapping by atomics only, and map nothing in its place.
        let id = unsafe { table.add(self.base, self.len, None) }.unwrap();
        (table, id)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the pages of this mapping; unmapping some twice does no harm here.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// Lengths around every edge of the copy routines.
fn lengths() -> impl Iterator<Item = usize> {
    (0..=300).chain([383, 384, 385, 511, 512, 1000, 1024, 1500, 4095, 4096])
}

fn pattern(i: usize) -> u8 {
    u8::try_from(i % 251).unwrap() + 1
}

fn copies_are_exact<M: Mover>(near: impl Iterator<Item = usize>, far: &[usize]) {
    let memory = Mapping::new(3);
    let (table, id) = memory.table::<M>();
    for (near, &far) in near.flat_map(|near| far.iter().map(move |far| (near, far))) {
        for len in lengths() {
            let source: Vec<u8> = (0..len + far).map(pattern).collect();
            for around in [near + 63, near + 64 + len] {
                memory.byte(around).store(0xfe, Ordering::Relaxed);
            }
            let offset = near + 64;
            table.write(id, offset as u64, &source[far..]).unwrap();
            for i in 0..len {
                assert_eq!(memory.byte(offset + i).load(Ordering::Relaxed), source[far + i]);
            }
            for around in [offset - 1, offset + len] {
                assert_eq!(memory.byte(around).load(Ordering::Relaxed), 0xfe, "{near} {far} {len}");
            }
            let mut target = vec![0xfe; far + len + 1];
            table.read(id, offset as u64, &mut target[far..far + len]).unwrap();
            assert_eq!(target[far..far + len], source[far..], "{near} {far} {len}");
            assert!(target[..far].iter().chain(&target[far + len..]).all(|&b| b == 0xfe));
        }
    }
}

#[test]
fn copies_of_all_lengths_and_alignments_are_exact() {
    copies_are_exact::<Guarded>((0..17).chain([31, 32, 33]), &[0, 1, 4, 15]);
    copies_are_exact::<Atomics>(0..9, &[0, 1, 4]);
    copies_are_exact::<ProcessVm>(0..2, &[0, 1]);
}

/// Accesses that touch a page without rights, from every distance to its edge.
fn faults_are_reported<M: Mover>(lengths: impl Iterator<Item = usize>) {
    let memory = Mapping::new(3);
    memory.protect(1, libc::PROT_NONE);
    let (table, id) = memory.table::<M>();
    for len in lengths.filter(|&len| len > 0 && len < PAGE) {
        let mut bytes = vec![7; len];
        let end = PAGE - len;
        assert_eq!(table.write(id, end as u64, &bytes), Ok(()));
        assert_eq!(table.read(id, end as u64, &mut bytes), Ok(()));
        for missing in 1..=len.min(300) {
            let offset = end + missing;
            assert_eq!(table.write(id, offset as u64, &bytes), Err(MemoryFault));
            assert_eq!(table.read(id, offset as u64, &mut bytes), Err(MemoryFault));
            // And with the missing bytes in front.
            let offset = 2 * PAGE - missing;
            assert_eq!(table.write(id, offset as u64, &bytes), Err(MemoryFault));
            assert_eq!(table.read(id, offset as u64, &mut bytes), Err(MemoryFault));
        }
    }
    for rights in [libc::PROT_NONE, libc::PROT_READ] {
        memory.protect(1, rights);
        let at = PAGE as u64 + 8;
        assert_eq!(table.compare_swap(id, at, 0, 1), Err(MemoryFault));
        assert_eq!(table.compare_swap(id, at, 1, 2), Err(MemoryFault), "even if it stores nothing");
        assert_eq!(table.fetch_add(id, at, 0), Err(MemoryFault));
        assert_eq!(table.write(id, at, &[1]), Err(MemoryFault));
        let readable = table.read(id, at, &mut [0]);
        assert_eq!(readable.is_ok(), rights == libc::PROT_READ);
    }
    memory.unmap(1);
    assert_eq!(table.fetch_add(id, PAGE as u64, 0), Err(MemoryFault));
    assert_eq!(table.read(id, PAGE as u64, &mut [0; 300]), Err(MemoryFault));
}

#[test]
fn faults_are_reported_wherever_in_a_copy_they_happen() {
    faults_are_reported::<Guarded>(lengths());
    faults_are_reported::<ProcessVm>([1, 8, 100, 300].into_iter());
}

#[test]
fn addresses_that_no_mapping_can_have_are_faults() {
    for address in [0, 8, 1 << 63, usize::MAX - 4095] {
        let mut table = HostMemory::<Native>::new();
        // SAFETY: there is nothing that an access could harm.
        let id = unsafe { table.add(ptr::without_provenance_mut(address), 4000, None) }.unwrap();
        for len in [1, 8, 64, 1024] {
            assert_eq!(table.read(id, 8, &mut vec![0; len]), Err(MemoryFault), "{address:#x}");
            assert_eq!(table.write(id, 8, &vec![0; len]), Err(MemoryFault), "{address:#x}");
        }
        assert_eq!(table.fetch_add(id, 0, 1), Err(MemoryFault), "{address:#x}");
    }
}

#[test]
fn a_fault_in_the_middle_leaves_what_came_before() {
    let memory = Mapping::new(2);
    memory.protect(1, libc::PROT_NONE);
    let (table, id) = memory.table::<Guarded>();
    for len in [100, 2000] {
        assert_eq!(table.write(id, (PAGE - 64) as u64, &vec![9; len]), Err(MemoryFault));
        for i in PAGE - 64..PAGE - 32 {
            assert_eq!(memory.byte(i).swap(0, Ordering::Relaxed), 9, "{len} {i}");
        }
    }
}

#[test]
fn a_file_that_was_cut_short_is_a_fault() {
    // SAFETY: a new descriptor.
    let file = unsafe { libc::memfd_create(c"cut".as_ptr(), 0) };
    // SAFETY: the descriptor is ours.
    assert_eq!(unsafe { libc::ftruncate(file, 2 * FILE_PAGE) }, 0);
    let memory = Mapping::of(2 * PAGE, libc::MAP_SHARED, file);
    let (table, id) = memory.table::<Guarded>();
    assert_eq!(table.write(id, PAGE as u64, &[1; 64]), Ok(()));
    // SAFETY: the descriptor is ours.
    assert_eq!(unsafe { libc::ftruncate(file, FILE_PAGE) }, 0);
    assert_eq!(table.write(id, PAGE as u64, &[1; 64]), Err(MemoryFault));
    assert_eq!(table.read(id, PAGE as u64, &mut [1; 64]), Err(MemoryFault));
    assert_eq!(table.fetch_add(id, PAGE as u64, 1), Err(MemoryFault));
    assert_eq!(table.write(id, 0, &[1; 64]), Ok(()));
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(file) };
}

fn atomics_are_right<M: Mover>() {
    let memory = Mapping::new(1);
    let (table, id) = memory.table::<M>();
    memory.word(16).store(5, Ordering::Relaxed);
    assert_eq!(table.compare_swap(id, 16, 4, 9), Ok(5));
    assert_eq!(memory.word(16).load(Ordering::Relaxed), 5);
    assert_eq!(table.compare_swap(id, 16, 5, u64::MAX), Ok(5));
    assert_eq!(table.fetch_add(id, 16, 3), Ok(u64::MAX));
    assert_eq!(memory.word(16).load(Ordering::Relaxed), 2);
    for offset in (17..24).chain([PAGE as u64 - 7, PAGE as u64, u64::MAX, u64::MAX - 7]) {
        assert_eq!(table.compare_swap(id, offset, 2, 0), Err(MemoryFault));
        assert_eq!(table.fetch_add(id, offset, 1), Err(MemoryFault));
    }
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    table.fetch_add(id, 24, 1).unwrap();
                }
            });
        }
        for _ in 0..10_000 {
            memory.word(24).fetch_add(1, Ordering::Relaxed);
        }
    });
    assert_eq!(memory.word(24).load(Ordering::Relaxed), 30_000);
}

#[test]
fn atomics_are_right_and_atomic() {
    atomics_are_right::<Guarded>();
    atomics_are_right::<Atomics>();
    atomics_are_right::<ProcessVm>();
}

#[test]
fn accesses_outside_the_range_are_faults() {
    let memory = Mapping::new(2);
    let mut table = HostMemory::<Native>::new();
    // SAFETY: touched by the table only.
    let id = unsafe { table.add(memory.base, PAGE, None) }.unwrap();
    let end = PAGE as u64;
    assert_eq!(table.read(id, end, &mut []), Ok(()));
    assert_eq!(table.write(id, end, &[]), Ok(()));
    for (offset, len) in
        [(end, 1), (end - 1, 2), (end + 1, 0), (u64::MAX, 0), (u64::MAX, 2), (0, PAGE + 1)]
    {
        assert_eq!(table.read(id, offset, &mut vec![0; len]), Err(MemoryFault), "{offset} {len}");
        assert_eq!(table.write(id, offset, &vec![0; len]), Err(MemoryFault), "{offset} {len}");
    }
}

#[test]
fn a_number_dies_with_its_range() {
    let memory = Mapping::new(1);
    let (mut table, first) = memory.table::<Native>();
    let kept: Arc<u8> = Arc::new(0);
    // SAFETY: touched by the table only.
    let second = unsafe { table.add(memory.base, 8, Some(kept.clone())) }.unwrap();
    assert_eq!(Arc::strong_count(&kept), 2);
    table.remove(second).unwrap();
    assert_eq!(Arc::strong_count(&kept), 1);
    assert_eq!(table.remove(second), Err(MemoryFault));
    assert_eq!(table.read(second, 0, &mut []), Err(MemoryFault));
    // SAFETY: touched by the table only.
    let third = unsafe { table.add(memory.base, 8, None) }.unwrap();
    assert_ne!(second, third);
    assert_eq!(table.read(second, 0, &mut [0]), Err(MemoryFault));
    assert_eq!(table.read(third, 0, &mut [0]), Ok(()));
    assert_eq!(table.read(first, 8, &mut [0]), Ok(()));
    assert_eq!(table.read(MemoryId(INDEX_MASK), 0, &mut [0]), Err(MemoryFault));
}

/// Runs `work` until the closure that it is given says that the time is over.
fn while_running<R>(
    background: impl Fn(&dyn Fn() -> bool) + Sync,
    foreground: impl FnOnce() -> R,
) -> R {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| background(&|| !stop.load(Ordering::Relaxed)));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(foreground));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
// [flush-placement/atomic-write-whole]
fn aligned_words_are_never_torn() {
    let memory = Mapping::new(2);
    let (table, id) = memory.table::<Guarded>();
    let writer = |running: &dyn Fn() -> bool| {
        let mut value = 0_u64;
        while running() {
            for word in 0..PAGE / 8 {
                memory.word(word * 8).store(value | value << 32, Ordering::Relaxed);
            }
            value = (value + 1) & 0xffff_ffff;
        }
    };
    let torn = while_running(writer, || {
        let mut buffer = [0; 2048];
        let mut torn = Vec::new();
        for round in 0..4000 {
            // Any alignment of the private side, any multiple of 8 on the program's.
            let (skew, offset) = (round % 17, round % 100 * 8);
            table.read(id, offset as u64, &mut buffer[skew..skew + 1024]).unwrap();
            let words = buffer[skew..skew + 1024].chunks_exact(8);
            torn.extend(words.filter(|w| w[..4] != w[4..]).map(<[u8]>::to_vec));
        }
        torn
    });
    assert_eq!(torn, [[0; 0]; 0]);
}

/// Looks as often as it can, but lets others run in the long term.
fn spin_until(done: impl Fn() -> bool) {
    while !(0..10_000).any(|_| done()) {
        thread::yield_now();
    }
}

#[test]
fn the_last_byte_of_a_message_arrives_last() {
    const ROUNDS: usize = 1500;
    let memory = Mapping::new(2);
    let (table, id) = memory.table::<Guarded>();
    let place = |round: usize| (round * 13 % 400, 1 + round * 7 % 700);
    let mut early = Vec::new();
    thread::scope(|scope| {
        let device = scope.spawn(|| {
            for round in 0..ROUNDS {
                let (offset, len) = place(round);
                table.write(id, offset as u64, &vec![pattern(round); len]).unwrap();
                // The program clears the last byte when it has looked.
                spin_until(|| memory.byte(offset + len - 1).load(Ordering::Acquire) == 0);
            }
        });
        for round in 0..ROUNDS {
            let (offset, len) = place(round);
            let last = memory.byte(offset + len - 1);
            spin_until(|| last.load(Ordering::Acquire) == pattern(round));
            // No assertion here: the other thread waits for this one.
            for i in offset..offset + len {
                if memory.byte(i).load(Ordering::Relaxed) != pattern(round) {
                    early.push((round, offset, len, i));
                }
            }
            for i in 0..1200 {
                if i != offset + len - 1 {
                    memory.byte(i).store(0, Ordering::Relaxed);
                }
            }
            memory.byte(offset + len - 1).store(0, Ordering::Release);
        }
        device.join().unwrap();
    });
    assert_eq!(early, [], "round, offset, length, byte that was late");
}

fn memory_comes_and_goes<M: Mover>(rounds: usize) {
    let memory = Mapping::new(4);
    let (table, id) = memory.table::<M>();
    let toggle = |running: &dyn Fn() -> bool| {
        while running() {
            for rights in [libc::PROT_NONE, libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
                memory.protect(1, rights);
                thread::yield_now();
            }
        }
    };
    let (mut good, mut bad) = (0, 0);
    while_running(toggle, || {
        let mut bytes = vec![3; 3 * PAGE];
        // Until both have happened often; rounds alone may fall into one slice of time.
        while good < rounds || bad < rounds {
            for len in [8, 100, 1024, 3 * PAGE] {
                let offset = PAGE as u64 - 4;
                let answers = [table.write(id, offset, &bytes[..len])];
                let answers =
                    answers.into_iter().chain([table.read(id, offset, &mut bytes[..len])]);
                for answer in answers {
                    if answer.is_ok() { good += 1 } else { bad += 1 }
                }
            }
            thread::yield_now();
        }
    });
    memory.unmap(1);
    assert_eq!(table.write(id, 0, &vec![1; 2 * PAGE]), Err(MemoryFault));
    assert_eq!(table.write(id, 2 * PAGE as u64, &[1; PAGE]), Ok(()));
}

#[test]
fn rights_change_under_the_device_and_nobody_dies() {
    memory_comes_and_goes::<Guarded>(2000);
    memory_comes_and_goes::<ProcessVm>(500);
}

#[test]
fn probing_judges_rights_and_faults_nothing_in() {
    let huge = Mapping::new(1 << 18);
    assert_eq!(probe(huge.base, huge.len, true), Ok(()));
    let mut resident = vec![0_u8; huge.len / PAGE];
    // SAFETY: the vector has a byte for each page.
    assert_eq!(unsafe { libc::mincore(huge.base.cast(), huge.len, resident.as_mut_ptr()) }, 0);
    assert!(resident.iter().all(|page| page & 1 == 0));

    let memory = Mapping::new(4);
    memory.protect(1, libc::PROT_READ);
    memory.protect(2, libc::PROT_NONE);
    let judge = |start: usize, end: usize, write| {
        probe(memory.base.wrapping_add(start), end - start, write).is_ok()
    };
    assert!(judge(0, PAGE, true));
    assert!(judge(0, 2 * PAGE, false));
    assert!(!judge(0, PAGE + 1, true));
    assert!(!judge(0, 2 * PAGE + 1, false));
    memory.unmap(2);
    assert!(!judge(PAGE, 3 * PAGE, false));
    assert!(judge(3 * PAGE, 4 * PAGE, true));
    assert!(matches!(probe(ptr::null(), 8, false), Err(VerbError::BadAddress(_))));
    assert!(matches!(
        probe(ptr::without_provenance(usize::MAX - 3), 8, false),
        Err(VerbError::BadAddress(_))
    ));
}
