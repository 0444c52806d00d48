//! Adversaries that rely on an order of execution that CUDA does not guarantee, or do not end.

use crate::bench::bench;

#[test]
fn b18_races() {
    bench().assert_all_announced(&[
        "b18-missing-barrier.cu",
        "b18-blocks-without-order.cu",
        "b18-read-only-cache.cu",
        "b18-atomic-for-one-block.cu",
        "b18-sums-without-atomics.cu",
        "b18-volatile-for-a-warp.cu",
    ]);
}

#[test]
fn b19_sums_in_any_order() {
    bench().assert_announced("b19-sums-in-any-order.cu");
}

#[test]
fn b20_blocks_that_wait_for_blocks() {
    bench().assert_announced("b20-barrier-of-the-grid.cu");
}

#[test]
fn b20_work_by_the_place_it_runs_at() {
    bench().assert_all_announced(&["b20-share-of-a-multiprocessor.cu", "b20-numbered-warp.cu"]);
}

#[test]
fn b33_no_end() {
    bench().assert_all_announced(&[
        "b33-endless-loop.cu",
        "b33-waits-for-the-clock.cu",
        "b33-one-thread-of-many.cu",
        "b33-divergent-barrier.cu",
    ]);
}
