"""Kernel Tuner with its cuda-python backend, which compiles with NVRTC and hands PTX to the driver."""

import json
import os
import tempfile
import unittest

import kernel_tuner
import numpy as np

VECTOR_ADD = """
extern "C" __global__ void vector_add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""

MATMUL = """
extern "C" __global__ void matmul(float *c, const float *a, const float *b) {
    __shared__ float as[tile][tile], bs[tile][tile];
    int x = blockIdx.x * tile + threadIdx.x, y = blockIdx.y * tile + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < 64; k += tile) {
        as[threadIdx.y][threadIdx.x] = a[y * 64 + k + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * 64 + x];
        __syncthreads();
        for (int i = 0; i < tile; i++) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    c[y * 64 + x] = sum;
}
"""


class Tuning(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(7)
        self.a, self.b = (random.random(10_000, dtype=np.float32) for _ in range(2))
        self.arguments = [np.zeros_like(self.a), self.a, self.b, np.int32(10_000)]
        # Result and cache files go to the working folder.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def tune(self, **options):
        return kernel_tuner.tune_kernel(
            "vector_add", VECTOR_ADD, 10_000, self.arguments,
            {"block_size_x": [32, 64, 128, 256]}, lang="NVCUDA", quiet=True, **options)

    def test_every_configuration_runs_and_is_timed(self):
        results, device = self.tune()
        self.assertEqual({result["block_size_x"] for result in results}, {32, 64, 128, 256})
        self.assertTrue(all(result["time"] > 0 for result in results))
        self.assertIn("emulated", device["device_name"])

    def test_answers_are_verified(self):
        right, _ = self.tune(answer=[self.a + self.b, None, None, None])
        self.assertEqual(len(right), 4)
        with self.assertRaises(RuntimeError):
            self.tune(answer=[self.a - self.b, None, None, None], verify=None, atol=1e-6)

    def test_a_strategy_searches(self):
        results, _ = self.tune(strategy="random_sample", strategy_options={"max_fevals": 2})
        self.assertLessEqual(len(results), 2)

    def test_a_cache_is_written_and_read(self):
        path = os.path.join(self.folder, "cache.json")
        first, _ = self.tune(cache=path)
        again, _ = self.tune(cache=path)
        self.assertEqual([r["time"] for r in first], [r["time"] for r in again])
        with open(path) as file:
            # It stays open-ended, so that later runs can add to it.
            self.assertIn('"block_size_x"', file.read())

    def test_shared_memory_and_two_dimensions(self):
        a, b = (np.random.default_rng(n).random((64, 64), dtype=np.float32) for n in (1, 2))
        results, _ = kernel_tuner.tune_kernel(
            "matmul", MATMUL, (64, 64), [np.zeros_like(a), a, b],
            {"tile": [8, 16], "block_size_x": [8, 16], "block_size_y": [8, 16]},
            restrictions=["block_size_x == tile", "block_size_y == tile"], lang="NVCUDA", quiet=True,
            answer=[a @ b, None, None], atol=1e-3)
        self.assertEqual(len(results), 2)

    def test_one_configuration_runs_alone(self):
        outputs = kernel_tuner.run_kernel(
            "vector_add", VECTOR_ADD, 10_000, self.arguments, {"block_size_x": 128}, lang="NVCUDA")
        np.testing.assert_array_equal(outputs[0], self.a + self.b)
