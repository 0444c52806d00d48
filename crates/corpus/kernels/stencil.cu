// Stencils: five points in two dimensions with a halo in shared memory, seven points in three with a queue of registers.
constexpr int TILE = 16;

extern "C" __global__ void jacobi(const float* in, float* out, int width, int height) {
    __shared__ float tile[TILE + 2][TILE + 2];
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    auto at = [&](int column, int row) {
        return column >= 0 && column < width && row >= 0 && row < height ? in[row * width + column] : 0.0f;
    };
    tile[threadIdx.y + 1][threadIdx.x + 1] = at(x, y);
    if (threadIdx.x == 0) tile[threadIdx.y + 1][0] = at(x - 1, y);
    if (threadIdx.x == TILE - 1) tile[threadIdx.y + 1][TILE + 1] = at(x + 1, y);
    if (threadIdx.y == 0) tile[0][threadIdx.x + 1] = at(x, y - 1);
    if (threadIdx.y == TILE - 1) tile[TILE + 1][threadIdx.x + 1] = at(x, y + 1);
    __syncthreads();
    if (x < width && y < height)
        out[y * width + x] = 0.25f * (tile[threadIdx.y][threadIdx.x + 1] + tile[threadIdx.y + 2][threadIdx.x + 1] +
                                      tile[threadIdx.y + 1][threadIdx.x] + tile[threadIdx.y + 1][threadIdx.x + 2]);
}

extern "C" __global__ void heat(const double* __restrict__ in, double* __restrict__ out, int nx, int ny, int nz, double rate) {
    __shared__ double plane[8][8];
    const int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const bool inside = x > 0 && x < nx - 1 && y > 0 && y < ny - 1;
    const long layer = (long)nx * ny;
    long i = (long)y * nx + x;
    double below = 0.0, here = in[i], above = in[i + layer];
    for (int z = 1; z < nz - 1; ++z) {
        i += layer;
        below = here;
        here = above;
        above = in[i + layer];
        __syncthreads();
        plane[threadIdx.y][threadIdx.x] = here;
        __syncthreads();
        if (!inside) continue;
        const double left = threadIdx.x > 0 ? plane[threadIdx.y][threadIdx.x - 1] : in[i - 1];
        const double right = threadIdx.x < 7 ? plane[threadIdx.y][threadIdx.x + 1] : in[i + 1];
        const double front = threadIdx.y > 0 ? plane[threadIdx.y - 1][threadIdx.x] : in[i - nx];
        const double back = threadIdx.y < 7 ? plane[threadIdx.y + 1][threadIdx.x] : in[i + nx];
        out[i] = here + rate * (left + right + front + back + above + below - 6.0 * here);
    }
}
