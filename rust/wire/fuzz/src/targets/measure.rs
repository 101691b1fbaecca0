//! What a piece of work costs: memory, by an allocator that counts, and processor time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The system's allocator; it knows how much is in use, and how much was at most.
pub struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn took(bytes: usize) {
    let in_use = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(in_use, Ordering::Relaxed);
}

fn gave_back(bytes: usize) {
    IN_USE.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: the system's allocator does the work; counting changes nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        gave_back(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    // Not as `alloc`, copy, `dealloc`: large vectors grow in place, by moving pages.
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        took(size);
        gave_back(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.realloc(place, layout, size) }
    }
}

/// No input of a fuzzer is long enough to need this, also on a loaded machine and without optimisation, unless the
/// time grows faster than the input.
const MOST_TIME: Duration = Duration::from_secs(4);

/// What any work may take for its messages and its tables.
const SMALL_CHANGE: usize = 64 << 10;

/// Do `work`, which may take `most_bytes` (and some small change) more than there were, and little time.
///
/// Panics when it takes more. Counts the whole process: nothing else may run meanwhile.
pub fn bounded<T>(most_bytes: usize, work: impl FnOnce() -> T) -> T {
    let (before, began) = (IN_USE.load(Ordering::Relaxed), processor_time());
    MOST.store(before, Ordering::Relaxed);
    let result = work();
    let took = processor_time().saturating_sub(began);
    let most = MOST.load(Ordering::Relaxed).saturating_sub(before);
    assert!(most <= most_bytes + SMALL_CHANGE, "{most} bytes were taken, {most_bytes} may be");
    assert!(took <= MOST_TIME, "it took {took:?}");
    result
}

fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
