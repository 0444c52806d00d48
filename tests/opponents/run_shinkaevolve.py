"""Runs ShinkaEvolve with the simulated author, once for each seed.

Usage: run_shinkaevolve.py ADDRESS SEEDS TRIALS. ADDRESS is that of `methods -- serve`, which keeps the records.
Settings are ShinkaEvolve's defaults, but for what needs another model (embeddings, novelty, recommendations) and
for whole kernels in place of edits, because the author writes those.
"""

import os
import pathlib
import random
import sys
import tempfile
import urllib.request

import numpy
from shinka.core import EvolutionConfig
from shinka.core.async_runner import ShinkaEvolveRunner
from shinka.database import DatabaseConfig
from shinka.launch import LocalJobConfig

EVALUATOR = '''
import argparse
import json
import os
import pathlib
import urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("--program_path", type=pathlib.Path)
parser.add_argument("--results_dir", type=pathlib.Path)
arguments = parser.parse_args()
source = arguments.program_path.read_bytes()
request = urllib.request.Request(os.environ["RUN"] + "/evaluate", source, {"Content-Type": "text/plain"})
with urllib.request.urlopen(request, timeout=60) as answer:
    found = json.load(answer)
correct = found["speedup"] > 0
arguments.results_dir.mkdir(parents=True, exist_ok=True)
metrics = {"combined_score": found["speedup"], "public": {}, "private": {}, "text_feedback": found["told"]}
(arguments.results_dir / "metrics.json").write_text(json.dumps(metrics))
told = {"correct": correct, "error": None if correct else found["told"]}
(arguments.results_dir / "correct.json").write_text(json.dumps(told))
'''


def main() -> None:
    address, seeds, trials = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with urllib.request.urlopen(address + "/start", timeout=60) as answer:
        start = answer.read()
    for seed in range(seeds):
        run = os.environ["RUN"] = f"{address}/ShinkaEvolve/{seed}"
        random.seed(seed)
        numpy.random.seed(seed)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "start.cu").write_bytes(start)
            (folder / "evaluate.py").write_text(EVALUATOR)
            evolution = EvolutionConfig(
                # Diffs, 0.6 by default, are asked for as whole kernels.
                patch_types=["full", "cross"],
                patch_type_probs=[0.9, 0.1],
                num_generations=trials + 1,
                language="cuda",
                llm_models=[f"local/simulated@{run}/v1"],
                meta_rec_interval=None,
                embedding_model=None,
                use_text_feedback=True,
                init_program_path=str(folder / "start.cu"),
                results_dir=str(folder / "results"),
            )
            ShinkaEvolveRunner(
                evo_config=evolution,
                job_config=LocalJobConfig(eval_program_path=str(folder / "evaluate.py")),
                db_config=DatabaseConfig(db_path="programs.sqlite"),
                verbose=False,
                max_evaluation_jobs=1,
                max_proposal_jobs=1,
            ).run()
        print(f"ShinkaEvolve, seed {seed}: {trials} generations", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
