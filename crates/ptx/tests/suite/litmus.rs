//! Litmus tests of the PTX memory model: message passing inside a warp, a block and a grid with every mix of strength
//! and scope that kernels use. A racy one gets one finding, an ordered one none.

use crate::support::{Arg, Device, kernel, kinds};
use ptx::Schedule;
use ptx::report::{FindingKind, Outcome};

/// The smallest group that holds both threads.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Warp,
    Block,
    /// Warps of one block, with the words in device memory.
    BlockInDeviceMemory,
    Grid,
}

const PLACES: [Place; 4] = [
    Place::Warp,
    Place::Block,
    Place::BlockInDeviceMemory,
    Place::Grid,
];

impl Place {
    fn space(self) -> &'static str {
        match self {
            Self::Warp | Self::Block => "shared",
            Self::BlockInDeviceMemory | Self::Grid => "global",
        }
    }

    fn race(self) -> FindingKind {
        match self {
            Self::Warp => FindingKind::WarpRace,
            Self::Block => FindingKind::SharedRace,
            Self::BlockInDeviceMemory | Self::Grid => FindingKind::GlobalRace,
        }
    }

    /// Blocks, threads, and a test that is true in the second party: `%p9`, and in the first: `%p8`.
    fn parties(self) -> (u32, u32, &'static str) {
        match self {
            Self::Warp => (1, 2, "setp.eq.u32 %p8, %r1, 0;\nsetp.eq.u32 %p9, %r1, 1;"),
            Self::Block | Self::BlockInDeviceMemory => {
                (1, 64, "setp.eq.u32 %p8, %r1, 0;\nsetp.eq.u32 %p9, %r1, 32;")
            }
            Self::Grid => (
                2,
                1,
                "mov.u32 %r5, %ctaid.x;\nsetp.eq.u32 %p8, %r5, 0;\nsetp.eq.u32 %p9, %r5, 1;",
            ),
        }
    }
}

/// Runs what the two parties do; `DATA` and `FLAG` are their two words.
fn run(place: Place, first: &str, second: &str, schedule: Schedule) -> Vec<FindingKind> {
    let (blocks, threads, parties) = place.parties();
    let (data, flag) = match place.space() {
        "global" => ("[%rd1]", "[%rd1+128]"),
        _ => ("[s]", "[s+128]"),
    };
    let body = format!(
        ".shared .align 16 .b8 s[256];\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra READY;\nst.shared.u32 [s], 0;\n\
         st.shared.u32 [s+128], 0;\nREADY: bar.sync 0;\n{parties}\n@%p9 bra SECOND;\n@!%p8 bra END;\n{first}\nbra END;\n\
         SECOND: {second}\nEND:"
    )
    .replace("DATA", data)
    .replace("FLAG", flag)
    .replace("SPACE", place.space());
    let mut device = Device::new(&kernel(&body));
    let zeros = [0_u32; 64];
    let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &zeros)));
    let report = device
        .try_launch("k", [blocks, 1, 1], [threads, 1, 1], &args, |config| {
            config.budget = Some(50_000_000);
            config.schedule = schedule;
        })
        .expect("the kernel runs");
    assert_eq!(report.outcome, Outcome::Completed, "{body}");
    kinds(&report)
}

/// An instruction that writes or reads a word, and its part in a release or an acquire pattern of the whole device:
/// none, with a fence beside it, or by itself.
struct Access {
    text: &'static str,
    with_fence: bool,
    alone: bool,
    /// The same for threads of one block.
    with_fence_in_block: bool,
    alone_in_block: bool,
}

const fn access(
    text: &'static str,
    [with_fence, alone]: [bool; 2],
    [with_fence_in_block, alone_in_block]: [bool; 2],
) -> Access {
    Access {
        text,
        with_fence,
        alone,
        with_fence_in_block,
        alone_in_block,
    }
}

const NEVER: [bool; 2] = [false, false];
const FENCED: [bool; 2] = [true, false];
const ALONE: [bool; 2] = [true, true];

const FLAG_STORES: [Access; 10] = [
    access("st.SPACE.u32 FLAG, 1;", NEVER, NEVER),
    access("st.volatile.SPACE.u32 FLAG, 1;", FENCED, FENCED),
    access("st.relaxed.cta.SPACE.u32 FLAG, 1;", NEVER, FENCED),
    access("st.relaxed.gpu.SPACE.u32 FLAG, 1;", FENCED, FENCED),
    access("st.relaxed.sys.SPACE.u32 FLAG, 1;", FENCED, FENCED),
    access("st.release.cta.SPACE.u32 FLAG, 1;", NEVER, ALONE),
    access("st.release.gpu.SPACE.u32 FLAG, 1;", ALONE, ALONE),
    access("st.release.sys.SPACE.u32 FLAG, 1;", ALONE, ALONE),
    access("atom.SPACE.exch.b32 %r9, FLAG, 1;", FENCED, FENCED),
    access(
        "atom.release.gpu.SPACE.exch.b32 %r9, FLAG, 1;",
        ALONE,
        ALONE,
    ),
];

/// In shared memory an ordered read acquires by itself, because no cache lies in front of it.
const FLAG_LOADS: [Access; 7] = [
    access("ld.volatile.SPACE.u32 %r8, FLAG;", FENCED, ALONE),
    access("ld.relaxed.gpu.SPACE.u32 %r8, FLAG;", FENCED, ALONE),
    access("ld.relaxed.sys.SPACE.u32 %r8, FLAG;", FENCED, ALONE),
    access("ld.acquire.gpu.SPACE.u32 %r8, FLAG;", ALONE, ALONE),
    access("ld.acquire.sys.SPACE.u32 %r8, FLAG;", ALONE, ALONE),
    access("atom.SPACE.or.b32 %r8, FLAG, 0;", FENCED, ALONE),
    access("atom.acquire.gpu.SPACE.or.b32 %r8, FLAG, 0;", ALONE, ALONE),
];

/// Fences, and whether they reach the whole device.
const FENCES: [(&str, Option<bool>); 6] = [
    ("", None),
    ("fence.acq_rel.cta;", Some(false)),
    ("fence.acq_rel.gpu;", Some(true)),
    ("fence.sc.cta;", Some(false)),
    ("fence.sc.gpu;", Some(true)),
    ("membar.sys;", Some(true)),
];

fn is_effective(place: Place, access: &Access, fence: Option<bool>) -> bool {
    if place == Place::Grid {
        access.alone || (access.with_fence && fence == Some(true))
    } else {
        access.alone_in_block || (access.with_fence_in_block && fence.is_some())
    }
}

#[test]
fn messages_arrive_by_release_and_acquire_only() {
    let mut wrong = Vec::new();
    let mut count = [0; 2];
    for place in PLACES {
        for store in &FLAG_STORES {
            for (before, before_reaches) in FENCES {
                for load in &FLAG_LOADS {
                    for (after, after_reaches) in FENCES {
                        let released = is_effective(place, store, before_reaches);
                        let acquired = is_effective(place, load, after_reaches);
                        let first = format!("st.SPACE.u32 DATA, 7;\n{before}\n{}", store.text);
                        let second = format!(
                            "POLL: {}\nsetp.eq.u32 %p2, %r8, 0;\n@%p2 bra POLL;\n{after}\nld.SPACE.u32 %r10, DATA;\n\
                             st.global.u32 [%rd3], %r10;",
                            load.text
                        );
                        let found = run(place, &first, &second, Schedule::Serial);
                        let ordered = released && acquired;
                        count[usize::from(ordered)] += 1;
                        // A flag that is stored plainly and polled by an atomic is a second race.
                        let races = found.iter().all(|kind| *kind == place.race());
                        if !races || found.is_empty() != ordered || found.len() > 2 {
                            wrong.push(format!(
                                "{place:?}: {first}\n|| {second}\n{found:?}, ordered: {ordered}"
                            ));
                        }
                    }
                }
            }
        }
    }
    assert!(
        count[0] > 1000 && count[1] > 500,
        "{count:?} racy and ordered"
    );
    let some: Vec<&String> = wrong.iter().take(5).collect();
    assert!(wrong.is_empty(), "{} wrong: {some:#?}", wrong.len());
}

#[test]
fn strong_reads_of_data_need_the_writers_release() {
    // Reads past the cache need no acquire, and order nothing that was not released.
    let mut wrong = Vec::new();
    for place in PLACES {
        for (write, read, compared) in [
            (
                "st.SPACE.u32 DATA, 7;",
                "ld.volatile.SPACE.u32 %r10, DATA;",
                true,
            ),
            (
                "st.SPACE.u32 DATA, 7;",
                "ld.relaxed.gpu.SPACE.u32 %r10, DATA;",
                true,
            ),
            (
                "st.volatile.SPACE.u32 DATA, 7;",
                "ld.volatile.SPACE.u32 %r10, DATA;",
                true,
            ),
            // The reader fences, so that only the release is missing.
            (
                "st.volatile.SPACE.u32 DATA, 7;",
                "fence.acq_rel.gpu;\nld.SPACE.u32 %r10, DATA;",
                true,
            ),
            // Relaxed accesses are atomic, and no race.
            (
                "st.relaxed.gpu.SPACE.u32 DATA, 7;",
                "ld.relaxed.gpu.SPACE.u32 %r10, DATA;",
                false,
            ),
        ] {
            for store in &FLAG_STORES[1..] {
                for (fence, reaches) in FENCES {
                    let first = format!("{write}\n{fence}\n{}", store.text);
                    let second = format!(
                        "POLL: ld.volatile.SPACE.u32 %r8, FLAG;\nsetp.eq.u32 %p2, %r8, 0;\n@%p2 bra POLL;\n{read}\n\
                         add.u32 %r10, %r10, 1;\nst.global.u32 [%rd3], %r10;"
                    );
                    let racy = compared && !is_effective(place, store, reaches);
                    let found = run(place, &first, &second, Schedule::Serial);
                    let want = if racy { vec![place.race()] } else { vec![] };
                    if found != want {
                        wrong.push(format!(
                            "{place:?}: {first}\n|| {second}\n{found:?}, not {want:?}"
                        ));
                    }
                }
            }
        }
    }
    let some: Vec<&String> = wrong.iter().take(5).collect();
    assert!(wrong.is_empty(), "{} wrong: {some:#?}", wrong.len());
}

/// How an access takes part in a race that nothing orders.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Strength {
    Plain,
    Volatile,
    /// Relaxed, acquire, release, or an atomic operation, for threads of a block only.
    Block,
    /// The same for threads of the whole device.
    Device,
}

const STORES: [(&str, Strength); 12] = [
    ("st.SPACE.u32 WORD, 1;", Strength::Plain),
    ("st.volatile.SPACE.u32 WORD, 1;", Strength::Volatile),
    ("st.relaxed.cta.SPACE.u32 WORD, 1;", Strength::Block),
    ("st.relaxed.gpu.SPACE.u32 WORD, 1;", Strength::Device),
    ("st.relaxed.sys.SPACE.u32 WORD, 1;", Strength::Device),
    ("st.release.cta.SPACE.u32 WORD, 1;", Strength::Block),
    ("st.release.gpu.SPACE.u32 WORD, 1;", Strength::Device),
    ("st.release.sys.SPACE.u32 WORD, 1;", Strength::Device),
    (
        "atom.relaxed.cta.SPACE.exch.b32 %r20, WORD, 1;",
        Strength::Block,
    ),
    ("atom.SPACE.exch.b32 %r20, WORD, 1;", Strength::Device),
    ("red.relaxed.cta.SPACE.add.u32 WORD, 1;", Strength::Block),
    ("red.SPACE.add.u32 WORD, 1;", Strength::Device),
];

const LOADS: [(&str, Strength); 10] = [
    ("ld.SPACE.u32 %r8, WORD;", Strength::Plain),
    ("ld.volatile.SPACE.u32 %r8, WORD;", Strength::Volatile),
    ("ld.relaxed.cta.SPACE.u32 %r8, WORD;", Strength::Block),
    ("ld.relaxed.gpu.SPACE.u32 %r8, WORD;", Strength::Device),
    ("ld.relaxed.sys.SPACE.u32 %r8, WORD;", Strength::Device),
    ("ld.acquire.cta.SPACE.u32 %r8, WORD;", Strength::Block),
    ("ld.acquire.gpu.SPACE.u32 %r8, WORD;", Strength::Device),
    ("ld.acquire.sys.SPACE.u32 %r8, WORD;", Strength::Device),
    (
        "atom.relaxed.cta.SPACE.or.b32 %r8, WORD, 0;",
        Strength::Block,
    ),
    ("atom.SPACE.or.b32 %r8, WORD, 0;", Strength::Device),
];

/// Returns true if a store and a load of one word race where nothing orders them: one is plain, both are volatile,
/// or one has a scope that leaves out the other thread.
fn races(place: Place, store: Strength, load: Strength) -> bool {
    [store, load].contains(&Strength::Plain)
        || (store, load) == (Strength::Volatile, Strength::Volatile)
        || (place == Place::Grid && [store, load].contains(&Strength::Block))
}

#[test]
fn words_of_every_strength_and_scope() {
    let mut wrong = Vec::new();
    let mut count = [0; 2];
    for place in PLACES {
        for (store, stored) in STORES {
            for (load, loaded) in LOADS {
                let of = |text: &str, word: &str| text.replace("WORD", word);
                let told = |number: u32| format!("st.global.u32 [%rd3+{}], %r8;", 4 * number);
                for (name, first, second) in [
                    ("coherence", of(store, "DATA"), of(load, "DATA") + &told(1)),
                    (
                        "coherence, the load first",
                        of(load, "DATA") + &told(1),
                        of(store, "DATA"),
                    ),
                    (
                        "store buffering",
                        of(store, "DATA") + &of(load, "FLAG") + &told(0),
                        of(store, "FLAG") + &of(load, "DATA") + &told(1),
                    ),
                    (
                        "load buffering",
                        of(load, "DATA") + &of(store, "FLAG") + &told(0),
                        of(load, "FLAG") + &of(store, "DATA") + &told(1),
                    ),
                ] {
                    // Shared memory does not remember ordered loads, so that a write after one is not compared.
                    let forgets = place.space() == "shared" && load.starts_with("ld.");
                    if forgets && loaded != Strength::Plain && name.ends_with("first") {
                        continue;
                    }
                    let racy = races(place, stored, loaded);
                    count[usize::from(racy)] += 1;
                    let found = run(place, &first, &second, Schedule::Serial);
                    if found.is_empty() == racy || found.iter().any(|kind| *kind != place.race()) {
                        wrong.push(format!(
                            "{name} in a {place:?}: {first} || {second}: {found:?}, racy: {racy}"
                        ));
                    }
                }
            }
        }
    }
    assert!(
        count[0] > 400 && count[1] > 300,
        "{count:?} ordered and racy"
    );
    let some: Vec<&String> = wrong.iter().take(400).collect();
    assert!(wrong.is_empty(), "{} wrong: {some:#?}", wrong.len());
}

/// Two writes of a word race where nothing orders them if one is plain, or has a scope that leaves out the other thread.
#[test]
fn two_stores_of_every_strength_and_scope() {
    let mut wrong = Vec::new();
    for place in PLACES {
        for (one, first) in STORES {
            for (other, second) in STORES {
                let racy =
                    races(place, first, second) && [first, second] != [Strength::Volatile; 2];
                let other = other.replace(", 1;", ", 2;");
                let [one, other] = [one, &other].map(|text| text.replace("WORD", "DATA"));
                let found = run(place, &one, &other, Schedule::Serial);
                if found.is_empty() == racy || found.iter().any(|kind| *kind != place.race()) {
                    wrong.push(format!(
                        "{place:?}: {one} || {other}: {found:?}, racy: {racy}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

/// A word that a thread polls, and what it does then with the word itself.
#[test]
fn a_word_that_was_waited_for_may_be_used_plainly() {
    let polls = |load: &str| {
        format!("POLL: {load}\nsetp.eq.u32 %p2, %r8, 0;\n@%p2 bra POLL;\nfence.acq_rel.gpu;\n")
    };
    let mut wrong = Vec::new();
    for place in PLACES {
        for store in [
            "st.volatile.SPACE.u32 DATA, 7;",
            "st.relaxed.gpu.SPACE.u32 DATA, 7;",
            "st.release.gpu.SPACE.u32 DATA, 7;",
        ] {
            for load in [
                "ld.volatile.SPACE.u32 %r8, DATA;",
                "ld.relaxed.gpu.SPACE.u32 %r8, DATA;",
                "ld.acquire.gpu.SPACE.u32 %r8, DATA;",
                "atom.SPACE.or.b32 %r8, DATA, 0;",
            ] {
                for then in [
                    "ld.SPACE.u32 %r10, DATA;\nst.global.u32 [%rd3], %r10;",
                    "st.SPACE.u32 DATA, 0;",
                ] {
                    let first = format!("fence.acq_rel.gpu;\n{store}");
                    let second = polls(load) + then;
                    let found = run(place, &first, &second, Schedule::Serial);
                    if !found.is_empty() {
                        wrong.push(format!("{place:?}: {first}\n|| {second}\n{found:?}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

#[test]
fn threads_of_a_block_may_signal_in_its_scope() {
    for place in [Place::Warp, Place::Block, Place::BlockInDeviceMemory] {
        for (store, load) in [
            (
                "st.release.cta.SPACE.u32 FLAG, 1;",
                "ld.acquire.cta.SPACE.u32 %r8, FLAG;",
            ),
            (
                "fence.acq_rel.cta;\nst.relaxed.cta.SPACE.u32 FLAG, 1;",
                "ld.relaxed.cta.SPACE.u32 %r8, FLAG;\nfence.acq_rel.cta;",
            ),
            (
                "fence.acq_rel.cta;\nst.volatile.SPACE.u32 FLAG, 1;",
                "ld.volatile.SPACE.u32 %r8, FLAG;\nfence.acq_rel.cta;",
            ),
            (
                "atom.release.cta.SPACE.exch.b32 %r9, FLAG, 1;",
                "atom.acquire.cta.SPACE.or.b32 %r8, FLAG, 0;",
            ),
        ] {
            let first = format!("st.SPACE.u32 DATA, 7;\n{store}");
            let second = format!(
                "POLL: {load}\nsetp.eq.u32 %p2, %r8, 0;\n@%p2 bra POLL;\nld.SPACE.u32 %r10, DATA;\n\
                 st.global.u32 [%rd3], %r10;"
            );
            let found = run(place, &first, &second, Schedule::Serial);
            assert_eq!(found, [], "{place:?}: {store} || {load}");
        }
    }
}

/// Accesses of both parties to two words, in order, and whether they race.
const BOTH: &[(&str, &str, &str, bool)] = &[
    (
        "store buffering, weak",
        "st.SPACE.u32 DATA, 1;\nld.SPACE.u32 %r8, FLAG;\nst.global.u32 [%rd3], %r8;",
        "st.SPACE.u32 FLAG, 1;\nld.SPACE.u32 %r8, DATA;\nst.global.u32 [%rd3+4], %r8;",
        true,
    ),
    (
        "store buffering, relaxed with fences",
        "st.relaxed.gpu.SPACE.u32 DATA, 1;\nfence.sc.gpu;\nld.relaxed.gpu.SPACE.u32 %r8, FLAG;\nst.global.u32 [%rd3], %r8;",
        "st.relaxed.gpu.SPACE.u32 FLAG, 1;\nfence.sc.gpu;\nld.relaxed.gpu.SPACE.u32 %r8, DATA;\nst.global.u32 [%rd3+4], %r8;",
        false,
    ),
    (
        "load buffering, weak",
        "ld.SPACE.u32 %r8, DATA;\nst.SPACE.u32 FLAG, 1;\nst.global.u32 [%rd3], %r8;",
        "ld.SPACE.u32 %r8, FLAG;\nst.SPACE.u32 DATA, 1;\nst.global.u32 [%rd3+4], %r8;",
        true,
    ),
    (
        "load buffering, relaxed",
        "ld.relaxed.gpu.SPACE.u32 %r8, DATA;\nst.relaxed.gpu.SPACE.u32 FLAG, 1;\nst.global.u32 [%rd3], %r8;",
        "ld.relaxed.gpu.SPACE.u32 %r8, FLAG;\nst.relaxed.gpu.SPACE.u32 DATA, 1;\nst.global.u32 [%rd3+4], %r8;",
        false,
    ),
    (
        "coherence, weak",
        "st.SPACE.u32 DATA, 1;",
        "ld.SPACE.u32 %r8, DATA;\nld.SPACE.u32 %r9, DATA;\nadd.u32 %r8, %r8, %r9;\nst.global.u32 [%rd3], %r8;",
        true,
    ),
    (
        "coherence of writes, weak",
        "st.SPACE.u32 DATA, 1;",
        "st.SPACE.u32 DATA, 2;",
        true,
    ),
    (
        "coherence, relaxed",
        "st.relaxed.gpu.SPACE.u32 DATA, 1;\nst.relaxed.gpu.SPACE.u32 DATA, 2;",
        "ld.relaxed.gpu.SPACE.u32 %r8, DATA;\nld.relaxed.gpu.SPACE.u32 %r9, DATA;\nadd.u32 %r8, %r8, %r9;\nst.global.u32 [%rd3], %r8;",
        false,
    ),
    (
        "atomics on one word",
        "atom.SPACE.add.u32 %r8, DATA, 1;\nst.global.u32 [%rd3], %r8;",
        "atom.SPACE.add.u32 %r8, DATA, 1;\nst.global.u32 [%rd3+4], %r8;",
        false,
    ),
];

#[test]
fn two_words_and_coherence() {
    for (name, first, second, racy) in BOTH {
        for place in PLACES {
            let found = run(place, first, second, Schedule::Serial);
            if *racy {
                assert!(
                    !found.is_empty() && found.iter().all(|kind| *kind == place.race()),
                    "{name} in a {place:?}: {found:?}"
                );
            } else {
                assert_eq!(found, [], "{name} in a {place:?}");
            }
        }
    }
}

#[test]
fn independent_reads_of_independent_writes() {
    // Two blocks write a word each, and two read both in opposite orders.
    for (strength, fence, racy) in [
        ("", "", true),
        (".relaxed.gpu", "", false),
        (".relaxed.gpu", "fence.sc.gpu;", false),
        (".acquire.gpu", "", false),
    ] {
        let write = if strength == ".acquire.gpu" {
            ".release.gpu"
        } else {
            strength
        };
        let body = format!(
            "mov.u32 %r5, %ctaid.x;\nshl.b32 %r6, %r5, 7;\ncvt.u64.u32 %rd8, %r6;\nadd.s64 %rd9, %rd1, %rd8;\n\
             setp.gt.u32 %p1, %r5, 1;\n@%p1 bra READ;\nst{write}.global.u32 [%rd9], 1;\nbra END;\n\
             READ: sub.s64 %rd9, %rd9, 256;\nld{strength}.global.u32 %r8, [%rd9];\n{fence}\nxor.b32 %r6, %r6, 128;\n\
             cvt.u64.u32 %rd8, %r6;\nadd.s64 %rd9, %rd1, %rd8;\nsub.s64 %rd9, %rd9, 256;\n\
             ld{strength}.global.u32 %r9, [%rd9];\nadd.u32 %r8, %r8, %r9;\nst.global.u32 [%rd3], 1;\nEND:"
        );
        let mut device = Device::new(&kernel(&body));
        let zeros = [0_u32; 128];
        let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &zeros)));
        let report = device.launch("k", 4, 1, &args);
        assert_eq!(
            kinds(&report).is_empty(),
            !racy,
            "{strength} {fence}: {:#?}",
            report.findings
        );
    }
}

#[test]
fn lanes_that_exchange_through_shared_memory_have_to_meet() {
    // As old reductions of a warp do it, which counted on lanes to stay together.
    let exchange = |how: &str, meet: &str| {
        let steps: String = [16, 8, 4, 2, 1]
            .iter()
            .map(|step| {
                format!(
                    "ld{how}.shared.u32 %r5, [%r2+{}];\nld{how}.shared.u32 %r6, [%r2];\nadd.u32 %r6, %r6, %r5;\n{meet}\n\
                     st{how}.shared.u32 [%r2], %r6;\n{meet}\n",
                    4 * step
                )
            })
            .collect();
        let body = format!(
            ".shared .align 16 .b8 s[256];\nshl.b32 %r2, %r1, 2;\nst{how}.shared.u32 [%r2], %r1;\n\
             st{how}.shared.u32 [%r2+128], 0;\n{meet}\n{steps}ld{how}.shared.u32 %r7, [%r2];\nst.global.u32 [%rd3], 1;\n\
             cvt.u64.u32 %rd7, %r2;\nadd.s64 %rd6, %rd2, %rd7;\nst.global.u32 [%rd6], %r7;"
        );
        let mut device = Device::new(&kernel(&body));
        let zeros = [0_u32; 64];
        let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &zeros)));
        kinds(&device.launch("k", 1, 32, &args))
    };
    for how in ["", ".volatile"] {
        for meet in [
            "bar.warp.sync -1;",
            "shfl.sync.idx.b32 %r20, %r1, 0, 31, -1;",
            "bar.sync 0;",
        ] {
            assert_eq!(exchange(how, meet), [], "{how}, {meet}");
        }
        assert!(
            exchange(how, "").contains(&FindingKind::WarpRace),
            "{how} alone orders nothing"
        );
    }
}
