"""Runs OpenEvolve with the simulated author, once for each seed.

Usage: run_openevolve.py ADDRESS SEEDS TRIALS. ADDRESS is that of `methods -- serve`, which keeps the records.
Settings are OpenEvolve's defaults, but for whole kernels in place of edits, because the author writes those.
"""

import asyncio
import os
import pathlib
import sys
import tempfile
import urllib.request

from openevolve import OpenEvolve
from openevolve.config import Config, LLMModelConfig

EVALUATOR = '''
import json
import os
import pathlib
import urllib.request

from openevolve.evaluation_result import EvaluationResult


def evaluate(program):
    source = pathlib.Path(program).read_bytes()
    request = urllib.request.Request(os.environ["RUN"] + "/evaluate", source, {"Content-Type": "text/plain"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = json.load(answer)
    return EvaluationResult({"combined_score": found["speedup"]}, {"evaluator": found["told"]})
'''


def settings(run: str, seed: int, iterations: int) -> Config:
    config = Config()
    config.max_iterations = iterations
    config.checkpoint_interval = 10 * iterations
    config.log_level = "ERROR"
    config.random_seed = config.database.random_seed = seed
    config.language, config.file_suffix = "cuda", ".cu"
    config.diff_based_evolution = False
    config.evaluator.cascade_evaluation = False
    model = LLMModelConfig(name="simulated", api_base=run + "/v1", api_key="none")
    config.llm.models = [model]
    config.llm.evaluator_models = [model]
    config.llm.update_model_params({"temperature": 0.7, "max_tokens": 4096, "timeout": 60, "retries": 0, "retry_delay": 1})
    return config


def main() -> None:
    address, seeds = sys.argv[1], int(sys.argv[2])
    # An iteration whose kernel is the parent's evaluates nothing, so a tenth more than the trials are needed at most.
    iterations = int(sys.argv[3]) * 11 // 10
    with urllib.request.urlopen(address + "/start", timeout=60) as answer:
        start = answer.read()
    for seed in range(seeds):
        run = os.environ["RUN"] = f"{address}/OpenEvolve/{seed}"
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "start.cu").write_bytes(start)
            (folder / "evaluator.py").write_text(EVALUATOR)
            evolution = OpenEvolve(
                str(folder / "start.cu"), str(folder / "evaluator.py"), settings(run, seed, iterations), str(folder / "out")
            )
            asyncio.run(evolution.run(iterations))
        print(f"OpenEvolve, seed {seed}: {iterations} iterations", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
