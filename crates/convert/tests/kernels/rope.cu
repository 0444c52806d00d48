#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>

// Rotates pairs (i, i + half) of every head by the angles of the token's position.
template <typename scalar_t>
__global__ void rotary_embedding(
    const scalar_t* __restrict__ query,       // [tokens, heads, 2 * half]
    const float* __restrict__ cos_table,      // [tokens, half]
    const float* __restrict__ sin_table,
    scalar_t* __restrict__ rotated,
    const int64_t tokens, const int heads, const int half) {
  const int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= tokens * heads * half) return;
  const int i = idx % half;
  const int head = (idx / half) % heads;
  const int token = idx / (half * heads);

  const float c = cos_table[token * half + i];
  const float s = sin_table[token * half + i];
  const int base = (token * heads + head) * 2 * half;
  const float a = static_cast<float>(query[base + i]);
  const float b = static_cast<float>(query[base + half + i]);
  rotated[base + i] = static_cast<scalar_t>(a * c - b * s);
  rotated[base + half + i] = static_cast<scalar_t>(b * c + a * s);
}

torch::Tensor rotary(torch::Tensor query, torch::Tensor cos_table, torch::Tensor sin_table) {
  TORCH_CHECK(query.is_cuda(), "query must be a CUDA tensor");
  const at::cuda::OptionalCUDAGuard guard(device_of(query));
  auto rotated = torch::empty_like(query);
  const int64_t tokens = query.size(0);
  const int heads = query.size(1);
  const int half = query.size(2) / 2;
  const int threads = 128;
  const int64_t total = tokens * heads * half;
  dim3 grid((total + threads - 1) / threads);
  dim3 block(threads);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(query.scalar_type(), "rotary", [&] {
    rotary_embedding<scalar_t><<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(
        query.data_ptr<scalar_t>(), cos_table.data_ptr<float>(), sin_table.data_ptr<float>(),
        rotated.data_ptr<scalar_t>(), tokens, heads, half);
  });
  return rotated;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("rotary", &rotary); }
