//! The list of cases.

use crate::session::Session;
use crate::{
    Failure, attention, basics, faults, groups, images, irregular, language, ordering, products,
};

/// One or more kernels of one source, with inputs and expected results.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Name of the case.
    pub name: &'static str,
    /// The source whose module must be loaded.
    pub source: &'static str,
    /// True if the device must stop it with an error. It then runs alone in its process.
    pub faults: bool,
    run: fn(&Session<'_>) -> Result<(), Failure>,
}

impl Case {
    /// Runs the case on a device that has the module of [`Case::source`] loaded.
    ///
    /// # Errors
    /// The device's error or finding, or the first difference from the reference.
    pub fn run(&self, session: &Session<'_>) -> Result<(), Failure> {
        (self.run)(session)
    }
}

macro_rules! cases {
    (
        stopped: $($fault:ident)*;
        $($module:ident::$name:ident on $source:literal;)*
    ) => {
        /// Every case, in the order in which it runs.
        pub const CASES: &[Case] = &[
            $(Case {
                name: stringify!($name),
                source: $source,
                faults: false,
                run: $module::$name,
            },)*
            $(Case {
                name: stringify!($fault),
                source: "faults",
                faults: true,
                run: faults::$fault,
            },)*
        ];
    };
}

cases! {
    stopped:
        a_read_far_outside
        a_write_far_outside
        a_write_through_null
        a_write_off_its_alignment
        a_trap
        a_read_far_outside_shared_memory;
    attention::tensor_cores_with_scores_in_shared_memory on "attention_wmma";
    attention::flash_attention_with_fragments_in_registers on "attention_mma";
    attention::causal_attention_with_an_online_softmax on "attention_online";
    basics::row_sums on "reduce";
    basics::packed_halves on "halves";
    basics::histogram_with_atomics_and_votes on "histogram";
    basics::the_mathematics_library on "mathematics";
    basics::tensor_cores_through_wmma on "wmma";
    basics::asynchronous_copies on "pipeline";
    basics::integers_of_all_widths_and_text on "integers";
    basics::blocks_that_wait_for_each_other on "handshake";
    groups::sums_of_tiles_warps_and_blocks on "groups";
    groups::scans_of_tiles_and_coalesced_lanes on "groups";
    groups::partitions_by_label on "groups";
    groups::a_grid_that_synchronises on "grid_sync";
    groups::cub_reduces_scans_and_sorts on "cub_block";
    groups::cub_sorts_by_merging on "cub_merge";
    groups::cub_within_warps on "cub_block";
    groups::phases_of_a_barrier_object on "barriers";
    groups::copies_that_arrive_at_barriers on "barriers";
    groups::warps_that_hand_tiles_over on "barriers";
    groups::tiles_handed_over_by_every_means on "hand_over";
    images::five_points_with_a_halo on "stencil";
    images::seven_points_with_a_queue_of_registers on "stencil";
    images::a_filter_in_constant_memory on "convolution";
    images::depthwise_over_pairs_of_halves on "convolution";
    images::a_convolution_as_a_product on "convolution";
    images::a_fractal_with_divergent_loops on "physics";
    irregular::rows_from_a_persistent_queue on "queues";
    irregular::breadth_first_search on "queues";
    irregular::a_hash_table_of_counts_and_a_locked_list on "queues";
    irregular::sparse_products_and_segments on "sparse";
    irregular::embeddings_and_a_transpose on "sparse";
    irregular::calls_through_pointers_and_of_oneself on "calls";
    irregular::a_sort_with_a_stack_and_text on "calls";
    irregular::hashes_and_wide_integers on "bits";
    irregular::distances_and_random_numbers on "bits";
    irregular::every_atomic on "atomics";
    irregular::blocks_in_a_relay on "atomics";
    irregular::bodies_and_transforms on "physics";
    irregular::factorisations on "physics";
    language::layer_norm_by_welford on "normalise";
    language::rms_norm_with_a_residual on "normalise";
    language::gradients_of_a_normalisation on "normalise";
    language::rotary_embeddings_in_both_conventions on "rope";
    language::softmax_in_one_pass on "softmax";
    language::cross_entropy_and_its_gradient on "softmax";
    language::adamw_with_a_rounded_copy on "training";
    language::activations_of_both_kinds on "training";
    language::bytes_with_a_scale_per_block_and_clipping on "training";
    language::a_dropout_whose_mask_one_lane_writes on "training";
    ordering::exclusive_sums_of_rows on "scan";
    ordering::a_single_pass_that_looks_back on "scan";
    ordering::bitonic_sort_with_places on "sort";
    ordering::radix_sort_by_ballots on "sort";
    ordering::the_largest_of_each_row_and_of_all on "topk";
    ordering::tokens_are_routed_to_experts on "topk";
    products::single_precision_with_guarded_edges on "gemm_blocked";
    products::split_k_by_atomics_and_by_the_last_block on "gemm_split_k";
    products::bfloat16_in_a_pipeline_of_three_stages on "gemm_bf16";
    products::signed_bytes_by_dp4a_and_on_tensor_cores on "gemm_int8";
    products::floats_of_eight_bits on "gemm_fp8";
    products::tf32_rounded_and_corrected on "gemm_tf32";
    products::double_precision_and_directed_rounding on "gemm_f64";
    products::four_bit_weights on "gemv_int4";
    products::every_shape_and_format_of_wmma on "wmma_shapes";
}
