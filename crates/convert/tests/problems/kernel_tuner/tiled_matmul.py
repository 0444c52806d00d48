import numpy
import kernel_tuner


def tune():
    with open("tiled_matmul.cu", "r") as source:
        kernel_string = source.read()

    problem_size = (64, 48)
    depth = 32

    a = numpy.random.rand(problem_size[1], depth).astype(numpy.float32)
    b = numpy.random.rand(depth, problem_size[0]).astype(numpy.float32)
    c = numpy.zeros((problem_size[1], problem_size[0]), dtype=numpy.float32)
    args = [c, a, b, numpy.int32(problem_size[0]), numpy.int32(problem_size[1]), numpy.int32(depth)]

    tune_params = {
        "block_size_x": [8, 16, 32],
        "block_size_y": [4, 8, 16],
        "rows_per_thread": [1, 2, 4],
    }
    restrict = ["block_size_x * block_size_y >= 64", "block_size_y * rows_per_thread <= 32"]

    answer = [numpy.dot(a, b), None, None, None, None, None]

    results, env = kernel_tuner.tune_kernel(
        "matmul",
        kernel_string,
        problem_size,
        args,
        tune_params,
        grid_div_x=["block_size_x"],
        grid_div_y=["block_size_y", "rows_per_thread"],
        restrictions=restrict,
        answer=answer,
        atol=1e-3,
        cache="matmul_cache.json",
    )
    print(len(results))


if __name__ == "__main__":
    tune()
