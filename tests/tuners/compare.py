"""Compares searches of recorded spaces: compare.py PROGRAM FOLDER CACHE.json.gz...

PROGRAM is the example `tuners` of the crate `domain`. FOLDER keeps the searches of each strategy as a
list of lists of configurations, one list for each seed. A strategy of kernel_tuner whose file exists
is not run again.
"""

import gzip
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

SEEDS = 100
BUDGET = 200
BUDGETS = (25, 50, 100, 200)
# Those that need no package beside kernel_tuner and search for one objective.
RIVALS = (
    "random_sample genetic_algorithm greedy_ils greedy_mls ordered_greedy_mls mls simulated_annealing "
    "dual_annealing pso firefly_algorithm diff_evo basinhopping minimize hybrid_vndx "
    "adaptive_tabu_greywolf bayes_opt"
).split()
# A search by a Gaussian process over a large space takes minutes.
FEWER_SEEDS = {"bayes_opt": 20}
TIMES = ("compile_time", "verification_time", "benchmark_time", "framework_time", "strategy_time")
CUTOFF = (0.01, 0.95)
POINTS = 1000


class Space:
    def __init__(self, path):
        self.path = path
        self.name = Path(path).name.split(".")[0]
        self.data = json.load(gzip.open(path))
        self.tunables = self.data["tune_params_keys"]
        self.time, self.seconds = {}, {}
        for key, entry in self.data["cache"].items():
            entry.pop("times", None)
            time = entry["time"]
            failed = isinstance(time, str) or time >= 1e15
            self.time[key] = math.inf if failed else time
            self.seconds[key] = sum(entry.get(part, 0) for part in TIMES) / 1000
        self.optimum = min(self.time.values())
        self.slowest_first = sorted((t for t in self.time.values() if t < math.inf), reverse=True)

    def key(self, values):
        return ",".join(str(values[name]) for name in self.tunables)

    def best(self, search, count):
        return min((self.time[key] for key in search[:count]), default=math.inf)


def searches_of_rival(space, strategy):
    """kernel_tuner's searches in simulation mode, each with the distinct configurations in order."""
    import kernel_tuner

    names = ",".join(space.tunables)
    exists = eval(f"lambda {names}: ','.join(map(str, [{names}])) in known", {"known": space.time})
    searches = []
    with tempfile.TemporaryDirectory() as folder:
        cache = os.path.join(folder, "cache.json")
        Path(cache).write_text(json.dumps(space.data))
        for seed in range(FEWER_SEEDS.get(strategy, SEEDS)):
            random.seed(seed)
            np.random.seed(seed)
            results, _ = kernel_tuner.tune_kernel(
                space.data["kernel_name"],
                f"__global__ void {space.data['kernel_name']}() {{}}",
                space.data["problem_size"],
                [],
                space.data["tune_params"],
                restrictions=exists,
                cache=cache,
                simulation_mode=True,
                strategy=strategy,
                strategy_options={"max_fevals": BUDGET},
                quiet=True,
                objective="time",
            )
            # A configuration that was asked for again costs nothing.
            distinct = dict.fromkeys(space.key(result) for result in results)
            searches.append([key for key in distinct if key in space.time][:BUDGET])
    return searches


def searches_of_ours(space, program):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(space.data, file)
        file.flush()
        text = subprocess.run(
            [program, file.name, str(SEEDS), str(BUDGET)], check=True, capture_output=True, text=True
        ).stdout
    first, *rest = text.splitlines()
    keys = [space.key(values) for values in json.loads(first)]
    found = {}
    for line in map(json.loads, rest):
        searches = found.setdefault(line["strategy"], [])
        searches.append([keys[point] for point in line["asked"]])
    return found


def score(space, searches):
    """The performance score over time of the autotuning methodology.

    P(t) = (F(t) - S_rand(t)) / (S_opt - S_rand(t)), averaged over equally spaced times. S_rand is what
    random search without replacement is expected to have found after t / (mean seconds of an
    evaluation) evaluations: with M of them, the configuration of rank M (N + 1) / (M + 1), the slowest
    first. The window is where random search has come from 1% to 95% of the way from the median to the
    optimum, in evaluations of median length. F(t) is the mean of the searches' best times here; the
    methodology's own package smooths ranks by isotonic regression instead.
    """
    ranked = np.array(space.slowest_first)
    count = len(ranked)
    median = np.median(ranked)

    def evaluations(share):
        limit = median + share * (space.optimum - median)
        rank = int(np.argmax(ranked <= limit))
        return math.ceil(rank / (count + 1 - rank))

    seconds = np.array([space.seconds[key] for key, time in space.time.items() if time < math.inf])
    start, end = (evaluations(share) * np.median(seconds) for share in CUTOFF)
    times = np.linspace(max(start, np.median(seconds)), end, POINTS)
    made = np.maximum(np.round(times / seconds.mean()), 1)
    index = np.minimum(np.round(made * (count + 1) / (made + 1)).astype(int), count - 1)
    chance = ranked[index]
    curves = []
    for search in searches:
        clock = np.cumsum([space.seconds[key] for key in search])
        best = np.minimum.accumulate([space.time[key] for key in search])
        at = np.searchsorted(clock, times, side="right") - 1
        curve = np.where(at >= 0, best[np.maximum(at, 0)], np.inf)
        # Nothing valid yet counts as the slowest configuration.
        curves.append(np.minimum(curve, ranked[0]))
    found = np.mean(curves, axis=0)
    return float(np.mean((found - chance) / (space.optimum - chance)))


def main():
    program, folder, *paths = sys.argv[1:]
    warnings.filterwarnings("ignore")
    Path(folder).mkdir(parents=True, exist_ok=True)
    total = {}
    for path in paths:
        space = Space(path)
        rows = []
        found = {f"**{name}**": searches for name, searches in searches_of_ours(space, program).items()}
        for strategy in RIVALS:
            kept = Path(folder, f"{space.name}-{strategy}.json")
            if not kept.exists():
                print(f"{space.name}: {strategy}", file=sys.stderr)
                kept.write_text(json.dumps(searches_of_rival(space, strategy)))
            found[strategy] = json.loads(kept.read_text())
        for strategy, searches in found.items():
            searches = searches[: FEWER_SEEDS.get(strategy, SEEDS)]
            shares = []
            for budget in BUDGETS:
                of_optimum = [space.optimum / space.best(search, budget) for search in searches]
                shares.append(float(np.mean(of_optimum)))
            made = float(np.mean([min(len(search), BUDGET) for search in searches]))
            rows.append((strategy, shares, score(space, searches), made))
            total.setdefault(strategy, []).append(rows[-1])
        table(f"{space.name}: {len(space.time)} configurations, {len(space.slowest_first)} valid", rows)
    means = [
        (
            strategy,
            [float(np.mean([row[1][at] for row in rows])) for at in range(len(BUDGETS))],
            float(np.mean([row[2] for row in rows])),
            float(np.mean([row[3] for row in rows])),
        )
        for strategy, rows in total.items()
    ]
    table("mean of the spaces", means)


def table(title, rows):
    print(f"\n## {title}\n")
    print("| strategy | " + " | ".join(str(budget) for budget in BUDGETS) + " | score | evaluations |")
    print("|---|" + "---|" * (len(BUDGETS) + 2))
    for strategy, shares, points, made in sorted(rows, key=lambda row: -row[2]):
        cells = " | ".join(f"{100 * share:.1f}%" for share in shares)
        print(f"| {strategy} | {cells} | {points:.3f} | {made:.0f} |")


if __name__ == "__main__":
    main()
