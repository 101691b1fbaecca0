//! libFuzzer's door to the targets: one program, FUZZ_TARGET says which of them it runs. See `make fuzz`.
#![no_main]

mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: targets::measure::Counting = targets::measure::Counting;

static TARGET: LazyLock<targets::Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    targets::by_name(&name).unwrap_or_else(|| panic!("no target is called '{name}'"))
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
