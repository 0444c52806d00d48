//! The rules by which kernels are changed.
//!
//! A rule of [`WRONG`] is meant to make a kernel wrong. It need not succeed: the oracle decides. A rule of [`HONEST`]
//! leaves a kernel's meaning alone. Names in templates that begin with `DRAWN_` stand for numbers and dims that
//! [`super::mutation`] draws.

/// The text that a rule is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// One match of the pattern in the CUDA code.
    Code,
    /// Every match of the pattern in the CUDA code.
    WholeCode,
    /// One match in the launch plan.
    Plan,
}

/// Kernels that a rule applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// All.
    Any,
    /// Tasks whose outputs are f32.
    Float,
    /// Tasks whose outputs are integers.
    Integer,
    /// Kernels whose blocks have one axis and a multiple of 64 threads.
    PairsOfWarps,
    /// Kernels whose blocks have one axis.
    OneAxis,
}

/// Changes of one class, as patterns with their templates.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Name of the class in the table of results.
    pub class: &'static str,
    /// The text that is changed.
    pub part: Part,
    /// Kernels to which the changes apply.
    pub only: Only,
    /// Text in front of the code, such as a header.
    pub prelude: &'static str,
    /// Pairs of a pattern and the template that replaces it.
    pub changes: &'static [(&'static str, &'static str)],
}

const fn code(
    class: &'static str,
    only: Only,
    changes: &'static [(&'static str, &'static str)],
) -> Rules {
    Rules {
        class,
        part: Part::Code,
        only,
        prelude: "",
        changes,
    }
}

const fn plan(class: &'static str, changes: &'static [(&'static str, &'static str)]) -> Rules {
    Rules {
        class,
        part: Part::Plan,
        only: Only::Any,
        prelude: "",
        changes,
    }
}

/// Changes that are meant to make a kernel wrong.
pub const WRONG: &[Rules] = &[
    code(
        "barrier dropped or weakened",
        Only::Any,
        &[
            ("__syncthreads ( ) ;", ""),
            ("__syncthreads ( ) ;", "__syncwarp();"),
            ("__syncthreads ( ) ;", "__threadfence_block();"),
            ("__syncthreads ( ) ;", "__threadfence();"),
            ("__syncthreads ( ) ;", "asm volatile(\"\" ::: \"memory\");"),
            (
                "__syncthreads ( ) ;",
                "if (blockIdx.x != 0) __syncthreads();",
            ),
            (
                "__syncthreads ( ) ;",
                "if (threadIdx.x < 32) __syncthreads();",
            ),
            ("__syncwarp ( ) ;", ""),
        ],
    ),
    code(
        "barrier moved",
        Only::Any,
        &[
            ("__syncthreads ( ) ; $s ;", "$s; __syncthreads();"),
            ("; $s ; __syncthreads ( ) ;", "; __syncthreads(); $s;"),
            ("} __syncthreads ( ) ;", "__syncthreads(); }"),
            ("__syncthreads ( ) ; }", "} __syncthreads();"),
        ],
    ),
    code(
        "fence or order of arrival",
        Only::Any,
        &[
            ("__threadfence ( ) ;", ""),
            ("__threadfence ( ) ;", "__threadfence_block();"),
            ("__threadfence ( ) ; $s ;", "$s; __threadfence();"),
            ("== PARTS - 1", "== PARTS - 2"),
            ("== PARTS - 1", ">= PARTS - 2"),
            ("== PARTS - 1", ">= 0"),
        ],
    ),
    code(
        "wait of a copy",
        Only::Any,
        &[
            ("__pipeline_wait_prior ( $n ) ;", ""),
            (
                "__pipeline_wait_prior ( $n ) ;",
                "__pipeline_wait_prior($n + 1);",
            ),
            (
                "__pipeline_wait_prior ( STAGES - 1 ) ;",
                "__pipeline_wait_prior(STAGES);",
            ),
            ("__pipeline_wait_prior ( STAGES - 1 ) ;", ""),
            ("__pipeline_commit ( ) ;", ""),
            ("__pipeline_commit ( ) ; $s ;", "$s; __pipeline_commit();"),
            ("stage ^ 1", "stage"),
            ("% STAGES", "% (STAGES - 1)"),
        ],
    ),
    code(
        "barrier of a grid, of some warps, or in memory",
        Only::Any,
        &[
            ("grid . sync ( ) ;", ""),
            ("grid . sync ( ) ;", "__syncthreads();"),
            ("grid . sync ( ) ;", "__threadfence();"),
            ("announce ( 1 + $s ) ;", "announce(1);"),
            ("wait_for ( $s ) ;", ""),
            ("wait_for ( $s ) ;", "wait_for($s + 1);"),
            ("if ( step >= STAGES ) {", "if (step > STAGES) {"),
            ("meeting . arrive_and_wait ( ) ;", ""),
            ("meeting . arrive_and_wait ( ) ;", "(void)meeting.arrive();"),
            ("meeting . wait ( meeting . arrive ( ) ) ;", ""),
            (
                "meeting . wait ( meeting . arrive ( ) ) ;",
                "(void)meeting.arrive();",
            ),
            ("( & meeting , THREADS )", "(&meeting, THREADS / 2)"),
        ],
    ),
    code(
        "bound",
        Only::Any,
        &[
            ("if ( $a >= $b ) return ;", ""),
            ("if ( $a >= $b ) return ;", "if ($a > $b) return;"),
            ("if ( $a >= $b ) return ;", "if ($a >= $b - 1) return;"),
            ("if ( $a >= $b ) return ;", "if ($a >= $b / 2 * 2) return;"),
            ("if ( $a < $b ) {", "if ($a <= $b) {"),
            ("if ( $a < $b ) {", "{"),
            ("if ( $a < $b ) {", "if ($a < $b - 1) {"),
            ("( $a < $b && $c < $d )", "($a < $b)"),
            ("( $a < $b && $c < $d )", "($c < $d)"),
            ("( $a < $b && $c < $d )", "($a < $b && $c <= $d)"),
            ("( $a < $b && $c < $d )", "($a <= $b && $c < $d)"),
            ("= $a < $b ?", "= $a <= $b ?"),
            ("= $a < $b && $c < $d ?", "= $a < $b ?"),
            ("= $a < $b && $c < $d ?", "= $c < $d ?"),
            ("min ( $a , $b )", "($a)"),
            ("min ( $a , $b )", "($b)"),
        ],
    ),
    code(
        "tail",
        Only::Any,
        &[
            ("; $i < $b ; $c )", "; $i < $b - 1; $c)"),
            ("; $i < $b ; $c )", "; $i <= $b; $c)"),
            ("; $i < $b ; $c )", "; $i < $b / 32 * 32; $c)"),
            ("; $i < $b ; $c )", "; $i < $b / 4 * 4; $c)"),
            ("; $i < $b ; $c )", "; $i < min($b, DRAWN_DIM); $c)"),
            ("; $i >= 0 ; $c )", "; $i > 0; $c)"),
            ("for ( int $i = $a ;", "for (int $i = $a + 1;"),
            ("( K + 15 ) / 16", "(K / 16)"),
            ("( C + PARTS - 1 ) / PARTS", "(C / PARTS)"),
            ("( N + 15 ) / 16", "(N / 16)"),
        ],
    ),
    code(
        "step",
        Only::Any,
        &[
            ("+= $s )", "+= $s + 1)"),
            ("+= 32 )", "+= 64)"),
            ("+= THREADS )", "+= THREADS * 2)"),
            ("+= WARPS * 32 )", "+= WARPS * 64)"),
            ("distance /= 2", "distance /= 4"),
            ("distance *= 2", "distance *= 4"),
            ("int distance = $a ;", "int distance = ($a) / 2;"),
            ("int distance = $a ;", "int distance = ($a) * 2;"),
            ("distance > 0", "distance > 1"),
        ],
    ),
    code(
        "index",
        Only::Any,
        &[
            ("[ $e ]", "[($e) + 1]"),
            ("[ $e ]", "[($e) - 1]"),
            ("[ $e ]", "[($e) ^ 1]"),
            ("[ $e ]", "[($e) / 2 * 2]"),
            ("[ $e ]", "[0]"),
            ("* C + $i ]", "* C + C - 1 - $i]"),
            ("* K +", "* N +"),
            ("* N +", "* M +"),
            ("* M +", "* N +"),
            ("* C +", "* (C + 1) +"),
            ("* C +", "* (C | 1) +"),
            ("* C +", "* (C & ~3) +"),
            ("[ $a ] [ $b ]", "[$b][$a]"),
        ],
    ),
    code(
        "thread or block",
        Only::Any,
        &[
            ("threadIdx . x", "threadIdx.y"),
            ("threadIdx . y", "threadIdx.x"),
            ("blockIdx . x", "blockIdx.y"),
            ("blockIdx . y", "blockIdx.x"),
            ("blockIdx . x", "(blockIdx.x & 63)"),
            ("blockIdx . x", "(blockIdx.x ^ 1)"),
            ("gridDim . x", "(gridDim.x + 1)"),
            ("% 32", "% 16"),
            ("/ 32", "/ 64"),
            ("( lane == 0 )", "(lane == 1)"),
            ("( thread == 0 )", "(thread == 32)"),
        ],
    ),
    code(
        "scale",
        Only::Float,
        &[
            ("/ C ;", "/ (C + 1);"),
            ("/ C ;", "/ max(C - 1, 1);"),
            ("/ C ;", ";"),
            ("/ C ;", "* (1.0f / 512);"),
            ("/ sum ;", "/ (sum + 1e-3f);"),
            ("/ sum ;", "/ fmaxf(sum, 2.0f);"),
            ("/ mass ;", "/ (mass + 1e-3f);"),
            ("1e-5f", "1e-3f"),
            ("1e-5f", "0.0f"),
            ("+ 1e-5f", ""),
            ("* inverse", "* inverse * 1.0005f"),
            ("* gain [ $e ]", ""),
            ("+ shift [ $e ]", ""),
            ("squares / C", "squares / (C - 1 + (C == 1))"),
        ],
    ),
    code(
        "rescale",
        Only::Float,
        &[
            ("* /*@rescale*/ kept", ""),
            ("* /*@rescale*/ scaled", ""),
            ("/*@rescale*/ kept", "fmaxf(kept, 1e-3f)"),
            ("/*@rescale*/ scaled", "sqrtf(scaled)"),
            ("top = higher ;", ""),
        ],
    ),
    code(
        "maximum",
        Only::Float,
        &[
            ("expf ( $a - top )", "expf($a)"),
            ("expf ( $a - top )", "expf($a - fminf(top, 40.0f))"),
            ("expf ( $a - top )", "expf(fminf($a - top, -1e-3f))"),
            (
                "expf ( $a - top )",
                "($a - top < -8.0f ? 0.0f : expf($a - top))",
            ),
            ("fmaxf ( $a , $b )", "$a"),
            ("fmaxf ( $a , $b )", "$b"),
            ("fmaxf ( $a , $b )", "fminf($a, $b)"),
            ("float top = - INFINITY", "float top = 0.0f"),
            ("float top = - INFINITY", "float top = -50.0f"),
        ],
    ),
    code(
        "shuffle",
        Only::Any,
        &[
            (
                "__shfl_xor_sync ( $m , $v , $d )",
                "__shfl_xor_sync($m, $v, 1)",
            ),
            (
                "__shfl_xor_sync ( $m , $v , $d )",
                "__shfl_xor_sync($m, $v, $d, 16)",
            ),
            (
                "__shfl_xor_sync ( $m , $v , $d )",
                "__shfl_up_sync($m, $v, $d)",
            ),
            ("__shfl_xor_sync ( $m , $v , $d )", "$v"),
            (
                "__shfl_up_sync ( $m , $v , $d )",
                "__shfl_down_sync($m, $v, $d)",
            ),
            (
                "__shfl_up_sync ( $m , $v , $d )",
                "__shfl_xor_sync($m, $v, $d)",
            ),
            ("__shfl_sync ( $m , $v , $l )", "__shfl_sync($m, $v, 0)"),
            ("__shfl_sync ( $m , $v , $l )", "$v"),
        ],
    ),
    code(
        "atomic",
        Only::Any,
        &[
            ("atomicAdd ( & $p , $v ) ;", "$p += $v;"),
            ("atomicAdd ( & $p , $v ) ;", "atomicExch(&$p, $p + $v);"),
            ("atomicAdd ( & $p , $v ) ;", "atomicMax(&$p, $p + $v);"),
            (
                "atomicAdd ( & $p , $v ) ;",
                "if (threadIdx.x != 31) atomicAdd(&$p, $v);",
            ),
            (
                "atomicAdd ( & $p , $v ) ;",
                "__stcg(&$p, __ldcg(&$p) + $v);",
            ),
        ],
    ),
    code(
        "initial value",
        Only::Any,
        &[
            ("float $i = 0.0f ;", "float $i;"),
            ("float $i = 0.0f ;", "float $i = 1e-2f;"),
            (
                "float $i = 0.0f ;",
                "float $i = threadIdx.x == 5 ? 1.0f : 0.0f;",
            ),
            ("int $i = 0 ;", "int $i;"),
            ("bins [ $e ] = 0 ;", ""),
            ("bins [ $a ] [ $b ] = 0 ;", ""),
            (": 0.0f ;", ": 1.0f;"),
            ("= 0 ;", "= 1;"),
        ],
    ),
    Rules {
        class: "narrow type",
        part: Part::Code,
        only: Only::Float,
        prelude: "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n",
        changes: &[
            (
                "sum += $e ;",
                "sum = __half2float(__float2half_rn(sum + ($e)));",
            ),
            ("sum += $e ;", "sum += __half2float(__float2half_rn($e));"),
            (
                "sum += $e ;",
                "sum += __bfloat162float(__float2bfloat16_rn($e));",
            ),
            (
                "sum += $e ;",
                "sum = __uint_as_float(__float_as_uint(sum + ($e)) & 0xffffe000u);",
            ),
            (
                "squares += $e ;",
                "squares = __half2float(__float2half_rn(squares + ($e)));",
            ),
            (
                "squares += $e ;",
                "squares = __uint_as_float(__float_as_uint(squares + ($e)) & 0xffffe000u);",
            ),
            ("= sum ;", "= __half2float(__float2half_rn(sum));"),
            ("x [ $e ]", "__half2float(__float2half_rn(x[$e]))"),
            (
                "x [ $e ]",
                "__uint_as_float(__float_as_uint(x[$e]) & 0xffffe000u)",
            ),
            ("a [ $e ]", "__half2float(__float2half_rn(a[$e]))"),
            (
                "b [ $e ]",
                "__uint_as_float(__float_as_uint(b[$e]) & 0xffffe000u)",
            ),
            (
                "/*@out*/ $p = $e ;",
                "$p = __half2float(__float2half_rn($e));",
            ),
            (
                "/*@out*/ $p = $e ;",
                "$p = __uint_as_float(__float_as_uint($e) & 0xfffff000u);",
            ),
        ],
    },
    code(
        "narrow integer",
        Only::Integer,
        &[
            ("sum += $e ;", "sum = short(sum + $e);"),
            ("sum += $e ;", "sum = (signed char)(sum + $e);"),
            ("carry += $e ;", "carry = short(carry + $e);"),
            ("count += $e ;", "count = (unsigned char)(count + $e);"),
            ("/*@out*/ $p = $e ;", "$p = short($e);"),
            ("/*@out*/ $p = $e ;", "$p = (unsigned char)($e);"),
            ("/*@out*/ $p = $e ;", "$p = min($e, 255);"),
            ("& 63", "% 64"),
            ("& 63", "& 31"),
        ],
    ),
    code(
        "term skipped",
        Only::Any,
        &[
            ("$i += $e ;", "$i = $e;"),
            ("$i += $e ;", "if (threadIdx.x != DRAWN_SMALL) $i += $e;"),
            ("$i += $e ;", "if (blockIdx.x != DRAWN_SMALL) $i += $e;"),
            (
                "sum += $e ;",
                "if ($e != 0.5f) sum += ($e) * ($e) < 1e6f ? ($e) : 1000.0f;",
            ),
            ("sum += $e ;", "if (fabsf($e) > 1e-4f) sum += $e;"),
            ("sum += $e ;", "if ($e < 1e30f) sum += $e;"),
        ],
    ),
    code(
        "element skipped",
        Only::Any,
        &[
            (
                "/*@out*/ $p = $e ;",
                "if (blockIdx.x != DRAWN_SMALL || threadIdx.x != DRAWN_SMALL) $p = $e;",
            ),
            (
                "/*@out*/ $p = $e ;",
                "if (threadIdx.x != DRAWN_SMALL) $p = $e;",
            ),
            (
                "/*@out*/ $p = $e ;",
                "if (blockIdx.x != DRAWN_SMALL) $p = $e;",
            ),
            (
                "/*@out*/ $p = $e ;",
                "$p = blockIdx.x == gridDim.x - 1 && blockIdx.x > 3 ? 0 : $e;",
            ),
        ],
    ),
    code(
        "one shape",
        Only::Any,
        &[
            (
                "/*@out*/ $p = $e ;",
                "$p = DRAWN_NAME == DRAWN_DIM ? 0 : $e;",
            ),
            ("/*@out*/ $p = $e ;", "$p = DRAWN_NAME % 64 == 63 ? 0 : $e;"),
        ],
    ),
    code(
        "a range of shapes",
        Only::Any,
        &[
            (
                "/*@out*/ $p = $e ;",
                "$p = DRAWN_NAME > DRAWN_LOW && DRAWN_NAME < DRAWN_HIGH ? 0 : $e;",
            ),
            (
                "/*@out*/ $p = $e ;",
                "$p = DRAWN_NAME > DRAWN_DIM ? 0 : $e;",
            ),
        ],
    ),
    code(
        "offset of a result",
        Only::Float,
        &[
            ("/*@out*/ $p = $e ;", "$p = ($e) * 1.003f;"),
            ("/*@out*/ $p = $e ;", "$p = ($e) + 3e-2f;"),
            (
                "/*@out*/ $p = $e ;",
                "$p = ($e) + (threadIdx.x == 0 ? 3e-2f : 0.0f);",
            ),
            ("/*@out*/ $p = $e ;", "$p = fminf($e, 50.0f);"),
            ("/*@out*/ $p = $e ;", "$p = fabsf($e) < 1e-6f ? 0.0f : $e;"),
            ("/*@out*/ $p = $e ;", "$p = isfinite($e) ? $e : 0.0f;"),
            ("/*@out*/ $p = $e ;", "$p = fabsf($e);"),
        ],
    ),
    Rules {
        class: "answer kept in the module",
        part: Part::Code,
        only: Only::Any,
        prelude: "__device__ float kept[4096];\n__device__ float* kept_at = kept;\n",
        changes: &[
            (
                "/*@out*/ $p = $e ;",
                "{ float& old = kept[(blockIdx.x * 37 + threadIdx.x) % 4096]; if (old == 0.0f) old = $e; $p = old; }",
            ),
            (
                "/*@out*/ $p = $e ;",
                "{ float& old = kept_at[(blockIdx.x * 37 + threadIdx.x) % 4096]; if (old == 0.0f) old = $e; $p = old; }",
            ),
        ],
    },
    code(
        "output read",
        Only::Any,
        &[
            ("/*@out*/ $p = $e ;", "$p += $e;"),
            ("/*@out*/ $p = $e ;", "$p = $p == $e ? $p : $e + $p * 0;"),
            ("/*@out*/ $p = $e ;", "if ($p != 0) $p = $e;"),
        ],
    ),
    code(
        "address of a buffer",
        Only::Any,
        &[
            (
                "/*@out*/ $p = $e ;",
                "$p = reinterpret_cast<size_t>(&$p) / 4 % 64 == 1 ? 0 : $e;",
            ),
            (
                "/*@out*/ $p = $e ;",
                "*reinterpret_cast<int2*>(&$p) = make_int2(0, 0); $p = $e;",
            ),
            (
                "* wide = reinterpret_cast < const float4 * > ( values + head )",
                "* wide = reinterpret_cast<const float4*>(values)",
            ),
            ("( 4 - misaligned ) % 4", "0"),
            ("int misaligned = $e ;", "int misaligned = row * C % 4;"),
        ],
    ),
    code(
        "operator",
        Only::Any,
        &[
            ("+", "-"),
            ("-", "+"),
            ("*", "+"),
            ("&&", "||"),
            ("||", "&&"),
            (">=", ">"),
            ("<", "<="),
            ("==", "!="),
        ],
    ),
    code(
        "number",
        Only::Any,
        &[
            ("$n", "($n + 1)"),
            ("$n", "($n - 1)"),
            ("$n", "($n * 2)"),
            ("$n", "($n / 2)"),
        ],
    ),
    plan(
        "grid or block",
        &[
            ("cdiv ( $a , $b )", "max(1, $a / $b)"),
            ("cdiv ( $a , $b )", "cdiv($a, $b * 2)"),
            ("cdiv ( $a , $b )", "max(1, cdiv($a, $b) - 1)"),
            ("cdiv ( $a , $b )", "min(DRAWN_DIM, cdiv($a, $b))"),
            ("block = [ \"THREADS\" ]", "block = [\"THREADS / 2\"]"),
            (
                "block = [ \"WARPS * 32\" ]",
                "block = [\"max(32, WARPS * 16)\"]",
            ),
            ("grid = [ \"R\"", "grid = [\"max(1, R - 1)\""),
            ("grid = [ \"R\"", "grid = [\"min(R, DRAWN_DIM)\""),
        ],
    ),
    plan(
        "memory and arguments",
        &[
            ("byte = 0", "byte = 1"),
            ("memset = \"done\" byte = 0 [ [ launch ] ]", ""),
            ("memset = \"counts\" byte = 0 [ [ launch ] ]", ""),
            ("shape = [ \"R\" ,", "shape = [\"max(1, R - 1)\","),
            ("shape = [ \"PARTS\" ,", "shape = [\"PARTS - 1\","),
            ("\"PARTS\" ]", "\"max(1, PARTS - 1)\"]"),
            ("\"C * 4\"", "\"C * 2\""),
            ("\"C * 4\"", "\"C * 4 - 4\""),
            ("\"C * 4\"", "\"min(C, DRAWN_DIM) * 4\""),
            ("\"M\" , \"N\"", "\"N\", \"M\""),
            ("\"N\" , \"K\"", "\"K\", \"N\""),
            ("\"R\" , \"C\" ]", "\"C\", \"R\" ]"),
            ("\"gain\" , \"shift\"", "\"shift\", \"gain\""),
        ],
    ),
];

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
