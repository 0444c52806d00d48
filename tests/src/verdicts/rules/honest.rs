//! Rules that leave the meaning of a kernel alone.

use super::{Only, Part, Rules, code};

/// Changes that leave the meaning of a kernel alone.
pub const HONEST: &[Rules] = &[
    code(
        "barrier of equal strength",
        Only::Any,
        &[
            ("__syncthreads ( ) ;", "__syncthreads(); __syncthreads();"),
            (
                "__syncthreads ( ) ;",
                "__threadfence_block(); __syncthreads();",
            ),
            (
                "__syncthreads ( ) ;",
                "asm volatile(\"bar.sync 0;\" ::: \"memory\");",
            ),
            (
                "__syncthreads ( ) ;",
                "asm volatile(\"barrier.sync 0;\" ::: \"memory\");",
            ),
            (
                "__syncthreads ( ) ;",
                "asm volatile(\"bar.sync 3;\" ::: \"memory\");",
            ),
            ("__syncthreads ( ) ;", "__syncthreads_or(0);"),
            ("__syncthreads ( ) ;", "__syncthreads_and(threadIdx.x < 7);"),
            (
                "__syncthreads ( ) ;",
                "if (__syncthreads_count(1) == 0) return;",
            ),
            ("__syncwarp ( ) ;", "__syncwarp(0xffffffffu); __syncwarp();"),
            ("__syncwarp ( ) ;", "__syncthreads();"),
        ],
    ),
    Rules {
        class: "barrier of cooperative groups",
        part: Part::Code,
        only: Only::Any,
        prelude: "#include <cooperative_groups.h>\n",
        changes: &[
            (
                "__syncthreads ( ) ;",
                "cooperative_groups::this_thread_block().sync();",
            ),
            (
                "__syncthreads ( ) ;",
                "{ auto group = cooperative_groups::this_thread_block(); group.barrier_wait(group.barrier_arrive()); }",
            ),
            (
                "__syncthreads ( ) ;",
                "cooperative_groups::sync(cooperative_groups::this_thread_block());",
            ),
            (
                "__syncwarp ( ) ;",
                "cooperative_groups::coalesced_threads().sync();",
            ),
        ],
    },
    Rules {
        class: "shuffle of cooperative groups",
        part: Part::Code,
        only: Only::OneAxis,
        prelude: "#include <cooperative_groups.h>\n",
        changes: &[
            (
                "__shfl_xor_sync ( $m , $v , $d )",
                "cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block()).shfl_xor($v, $d)",
            ),
            (
                "__shfl_up_sync ( $m , $v , $d )",
                "cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block()).shfl_up($v, $d)",
            ),
        ],
    },
    code(
        "shuffle of equal meaning",
        Only::OneAxis,
        &[
            (
                "__shfl_xor_sync ( $m , $v , $d )",
                "__shfl_sync($m, $v, int(threadIdx.x & 31) ^ ($d))",
            ),
            (
                "__shfl_xor_sync ( $m , $v , $d )",
                "__shfl_xor_sync(__activemask(), $v, $d)",
            ),
            (
                "__shfl_xor_sync ( $m , $v , $d )",
                "__shfl_xor_sync($m, $v, $d, 32)",
            ),
            (
                "__shfl_up_sync ( $m , $v , $d )",
                "__shfl_sync($m, $v, int(threadIdx.x & 31) >= ($d) ? int(threadIdx.x & 31) - ($d) : int(threadIdx.x & 31))",
            ),
        ],
    ),
    code(
        "reordered sum",
        Only::Any,
        &[
            (
                "/*@any*/ for ( int $i = $a ; $ib < $b ; $ic += $s )",
                "for (int $i = ($b) > ($a) ? ($a) + (($b) - 1 - ($a)) / ($s) * ($s) : ($a) - 1; $i >= ($a); $i -= $s)",
            ),
            (
                "/*@any*/ for ( int $i = $a ; $ib < $b ; $ic += $s )",
                "for (int half = 0; half < 2; half += 1) for (int $i = ($a) + half * ($s); $i < $b; $i += 2 * ($s))",
            ),
            (
                "/*@any*/ for ( int $i = $a ; $ib < $b ; $ic += $s )",
                "for (int third = 2; third >= 0; third -= 1) for (int $i = ($a) + third * ($s); $i < $b; $i += 3 * ($s))",
            ),
            ("sum += $e ;", "sum = ($e) + sum;"),
            ("/*@wide*/ float $i", "double $i"),
            (
                "for ( int distance = 16 ; distance > 0 ; distance /= 2 )",
                "for (int distance = 1; distance < 32; distance *= 2)",
            ),
        ],
    ),
    code(
        "unrolled loop",
        Only::Any,
        &[
            ("for (", "\n#pragma unroll 4\nfor ("),
            ("for (", "\n#pragma unroll 1\nfor ("),
            ("for (", "\n#pragma unroll\nfor ("),
        ],
    ),
    code(
        "load or store of equal meaning",
        Only::Any,
        &[
            ("x [ $e ]", "__ldg(&x[$e])"),
            ("x [ $e ]", "__ldcs(&x[$e])"),
            ("x [ $e ]", "*(x + ($e))"),
            ("= a [ $e ]", "= __ldg(a + ($e))"),
            ("gain [ $e ]", "__ldg(&gain[$e])"),
            ("/*@out*/ $p = $e ;", "__stcs(&$p, $e);"),
            ("/*@out*/ $p = $e ;", "__stcg(&$p, $e);"),
            (
                "/*@out*/ $p = $e ;",
                "{ auto* place = &$p; asm volatile(\"\" ::: \"memory\"); *place = $e; }",
            ),
            ("const float * x", "const float* __restrict__ x"),
            ("const float * a", "const float* __restrict__ a"),
            ("const int * x", "const int* __restrict__ x"),
            ("const signed char * x", "const signed char* __restrict__ x"),
        ],
    ),
    code(
        "arithmetic of equal meaning",
        Only::Any,
        &[
            ("size_t (", "(long long)("),
            ("size_t (", "(unsigned long long)("),
            ("fmaxf ( $a , $b )", "fmaxf($b, $a)"),
            ("threadIdx . x % 32", "(threadIdx.x & 31)"),
            ("threadIdx . x / 32", "(threadIdx.x >> 5)"),
            ("( thread % 32 == 0 )", "((thread & 31) == 0)"),
            ("rsqrtf ( $e )", "(1.0f / sqrtf($e))"),
            ("expf ( $e )", "exp2f(($e) * 1.4426950408889634f)"),
            ("expf ( $e )", "__expf($e)"),
            ("/ sum ;", "* (1.0f / sum);"),
            ("/ C ;", "* (1.0f / C);"),
            ("/ mass ;", "* __frcp_rn(mass);"),
            ("& 63", "% 64u"),
        ],
    ),
    code(
        "atomic of equal meaning",
        Only::Any,
        &[
            ("atomicAdd ( & $p , $v ) ;", "atomicSub(&$p, -($v));"),
            ("atomicAdd ( & $p , $v ) ;", "(void)atomicAdd(&$p, $v);"),
            (
                "atomicAdd ( & $p , $v ) ;",
                "{ int old = atomicAdd(&$p, 0); int seen; do { seen = old; old = atomicCAS(&$p, seen, seen + $v); } while (old != seen); }",
            ),
            (
                "atomicAdd ( & bins $p , $v ) ;",
                "atomicAdd_block(&bins $p, $v);",
            ),
            ("atomicAdd ( & $p , $v ) ;", "atomicAdd_system(&$p, $v);"),
        ],
    ),
    Rules {
        class: "other order of blocks",
        part: Part::WholeCode,
        only: Only::Any,
        prelude: "",
        changes: &[
            ("blockIdx . x", "(gridDim.x - 1 - blockIdx.x)"),
            ("blockIdx . y", "(gridDim.y - 1 - blockIdx.y)"),
        ],
    },
    Rules {
        class: "other order of warps",
        part: Part::WholeCode,
        only: Only::PairsOfWarps,
        prelude: "",
        changes: &[
            ("threadIdx . x", "(threadIdx.x ^ 32)"),
            ("threadIdx . x", "((threadIdx.x + 32) % blockDim.x)"),
        ],
    },
    code(
        "bounds of a launch",
        Only::Any,
        &[
            ("__global__ void", "__global__ void __launch_bounds__(1024)"),
            (
                "__global__ void",
                "__global__ void __launch_bounds__(512, 2)",
            ),
        ],
    ),
];
