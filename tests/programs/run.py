"""Installs other people's programs at pinned versions, runs their tests on our driver and counts what passes."""

import concurrent.futures
import datetime
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = pathlib.Path(os.environ.get("KERNELWRIGHT_CACHE") or pathlib.Path.home() / ".cache/kernelwright")
TABLE = ROOT / "docs/measurements/programs.md"
INSTALL_SECONDS = 1800
SUITE_SECONDS = 1800


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, seconds, **options):
    """Runs a command with a time limit; answers with its output, whatever its end."""
    try:
        done = subprocess.run(command, timeout=seconds, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        text = output if isinstance(output, str) else output.decode(errors="replace")
        return 124, text + f"\nstopped after {seconds} s"


def must(command, seconds, **options):
    code, output = run(command, seconds, **options)
    if code != 0:
        sys.exit(f"failed to run {' '.join(map(str, command))}:\n{output[-4000:]}")
    return output


def build_driver():
    """Builds our driver; answers with a folder that holds it under the names programs look for."""
    must(["cargo", "build", "--locked", "--package", "driver"], INSTALL_SECONDS, cwd=ROOT)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    library = target / "debug/libkernelwright_driver.so"
    folder = CACHE / "programs/driver"
    folder.mkdir(parents=True, exist_ok=True)
    # A copy, so that building again does not change the library under a running program.
    for name in ("libcuda.so.1", "libcuda.so"):
        fresh = folder / f"{name}.fresh"
        shutil.copy(library, fresh)
        fresh.rename(folder / name)
    return folder


def environment(name, program, driver):
    """A virtual environment with the program in it; made once per list of requirements."""
    recipe = json.dumps([program.get("requires", []), program.get("without", []), program.get("build", [])])
    key = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    folder = CACHE / f"programs/{name}-{key}"
    python = folder / "bin/python"
    if not (folder / "complete").exists():
        say(f"installing {name}")
        shutil.rmtree(folder, ignore_errors=True)
        must([sys.executable, "-m", "venv", folder], 300)
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        if program.get("requires"):
            must([*pip, "install", *program["requires"]], INSTALL_SECONDS)
        if program.get("without"):
            must([*pip, "uninstall", "--yes", *program["without"]], INSTALL_SECONDS)
        variables = program_variables(folder, driver)
        for step in program.get("build", []):
            must(["sh", "-euc", step], INSTALL_SECONDS, cwd=folder, env=os.environ | variables)
        (folder / "complete").touch()
    return folder


def program_variables(folder, driver):
    site = next(folder.glob("lib/python3*/site-packages"))
    return {"VENV": str(folder), "SITE": str(site), "DRIVER": str(driver)}


def variables_of(program, driver, folder=None):
    """The variables a program's tests run with; our driver comes first on the library path."""
    libraries = [str(driver)]
    if folder is not None:
        site = pathlib.Path(program_variables(folder, driver)["SITE"])
        libraries += [str(path) for path in sorted(site.glob("nvidia/*/lib"))]
    else:
        libraries += [str(path) for path in sorted(CACHE.glob("nvrtc-*/nvidia/*/lib"))]
    return os.environ | {"LD_LIBRARY_PATH": ":".join(libraries)} | program.get("variables", {})


def module_tests(python, module, folder, variables):
    """One module's tests, in as many processes as it takes: each test that loses the device ends one."""
    tests = []
    while True:
        done = [test["test"] for test in tests]
        code, output = run([python, HERE / "unit.py", module, *done], SUITE_SECONDS, cwd=folder, env=variables)
        new = [json.loads(line) for line in output.splitlines() if line.startswith('{"test"')]
        tests += new
        if code != 0:
            return tests + [{"test": module, "result": "failed", "why": f"its process ended with {code}"}]
        if not new or new[-1]["result"] != "failed":
            return tests


def unittest_suite(name, program, driver):
    """Every module of the suite in a process of its own."""
    folder = environment(name, program, driver)
    site = pathlib.Path(program_variables(folder, driver)["SITE"])
    modules = list(program.get("examples", []))
    packages = program.get("packages", [])
    if "--all" in sys.argv:
        packages = packages + program.get("more_packages", [])
    for package in packages:
        base = site / program.get("root", "")
        files = sorted((base / package.replace(".", "/")).glob("test_*.py"))
        modules += [f"{package}.{file.stem}" for file in files]
    tests = []
    variables = variables_of(program, driver, folder) | {"PYTHONPATH": str(HERE / "examples")}
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    jobs = []
    for module in modules:
        jobs.append(pool.submit(module_tests, folder / "bin/python", module, folder, variables))
    for module, job in zip(modules, jobs):
        found = job.result()
        say(f"  {module}: {count(found, 'passed')} of {len(found)} tests passed")
        tests += found
    return tests


def cargo_suite(name, program, driver):
    """A crate's own tests and examples, built from the source that cargo has fetched for us."""
    metadata = json.loads(must(["cargo", "metadata", "--format-version", "1", "--locked"], 300,
                               cwd=ROOT).partition("{")[2].join(["{", ""]))
    package = next(p for p in metadata["packages"] if p["name"] == name and p["version"] == program["version"])
    folder = CACHE / f"programs/{name}-{program['version']}"
    if not folder.exists():
        shutil.copytree(pathlib.Path(package["manifest_path"]).parent, folder)
        # It is no member of the workspace that asks for it.
        with open(folder / "Cargo.toml", "a") as manifest:
            manifest.write("\n[workspace]\n")
    variables = variables_of(program, driver) | {"CARGO_TARGET_DIR": str(CACHE / "programs/target")}
    features = ["--no-default-features", "--features", program["features"]]
    _, output = run(["cargo", "test", *features, "--lib", "--", "--test-threads=1", *program["tests"]],
                    SUITE_SECONDS, cwd=folder, env=variables)
    tests = []
    for test, result in re.findall(r"^test (\S+) \.\.\. .*?(ok|FAILED|ignored)", output, re.M | re.S):
        word = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}[result]
        tests.append({"test": test, "result": word, "why": "its authors ignore it" if word == "skipped" else ""})
    if not tests:
        sys.exit(f"failed to run the tests of {name}:\n{output[-4000:]}")
    for example in program["examples"]:
        code, output = run(["cargo", "run", *features, "--example", example], SUITE_SECONDS,
                           cwd=folder, env=variables)
        last = output.strip().splitlines()[-1] if output.strip() else ""
        result = "passed" if code == 0 else "failed"
        tests.append({"test": f"examples::{example}", "result": result, "why": "" if code == 0 else last[:300]})
    return tests


SUITES = {"unittest": unittest_suite, "cargo": cargo_suite}


def explain(tests, misses):
    """Gives every failure its reason; answers with those that have none."""
    unexplained = []
    for test in tests:
        if test["result"] != "failed":
            continue
        known = next((miss for miss in misses
                      if any(fnmatch.fnmatch(test["test"], pattern) for pattern in miss["tests"])
                      or any(text in test["why"] for text in miss.get("says", []))), None)
        if known:
            test["reason"] = known["reason"]
        else:
            unexplained.append(test)
    return unexplained


def count(tests, result):
    return sum(test["result"] == result for test in tests)


def table(results):
    lines = ["| program | version | passed | failed | skipped |", "|---|---|---:|---:|---:|"]
    for name, (program, tests) in results.items():
        lines.append(f"| {name} | {program['version']} | {count(tests, 'passed')} "
                     f"| {count(tests, 'failed')} | {count(tests, 'skipped')} |")
    return "\n".join(lines)


def reasons(results):
    lines = []
    for name, (_, tests) in results.items():
        misses = {}
        for test in tests:
            if test["result"] == "failed":
                reason = test.get("reason", f"not explained: {test['why']}")
                misses.setdefault(reason, []).append(test["test"].removeprefix("numba.cuda.tests."))
        if not misses:
            continue
        lines += [f"\n### {name}\n"]
        for reason, names in sorted(misses.items(), key=lambda item: -len(item[1])):
            shown = ", ".join(f"`{test}`" for test in names[:6])
            more = f" and {len(names) - 6} more" if len(names) > 6 else ""
            lines.append(f"- **{len(names)}**: {reason} ({shown}{more})")
    return "\n".join(lines)


def stored(name, program):
    """What the last run of this version of a program found; nothing if there was none."""
    path = CACHE / f"programs/results/{name}.json"
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
        return found["tests"] if found["version"] == program["version"] else None
    except (ValueError, KeyError):
        # Of an older form.
        return None


def store(name, program, tests):
    folder = CACHE / "programs/results"
    folder.mkdir(exist_ok=True)
    fresh = folder / f"{name}.json.fresh"
    fresh.write_text(json.dumps({"version": program["version"], "tests": tests}))
    fresh.rename(folder / f"{name}.json")


def document(results, left_out, settings):
    today = datetime.date.today().isoformat()
    absent = f"\n\nNot run for this table: {', '.join(sorted(left_out))}." if left_out else ""
    return f"""# Other people's programs on the emulated GPU

Made by `tests/programs/run --write` on {today}. Every program is its authors' release, unmodified, in an environment of its own; our `libcuda.so.1` is first on its library path. "Passed" counts the tests that come with the package, and for programs whose package carries none, the examples in `tests/programs/examples`, written for this project.

{table(results)}{absent}

{settings}

## Why tests fail

A failure without a reason here makes the command end with an error.
{reasons(results)}
"""


def main():
    wanted = [word for word in sys.argv[1:] if not word.startswith("--")]
    described = tomllib.loads((HERE / "programs.toml").read_text())
    programs = described["program"]
    unknown = set(wanted) - set(programs)
    if unknown:
        sys.exit(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(programs)}")
    driver = build_driver()
    results, unexplained = {}, []
    for name, program in programs.items():
        if wanted and name not in wanted:
            continue
        say(name)
        tests = SUITES[program["suite"]](name, program, driver)
        unexplained += explain(tests, program.get("miss", []))
        results[name] = (program, tests)
        store(name, program, tests)
    print(table(results))
    print(reasons(results))
    if "--write" in sys.argv:
        # Programs that were not run now are told as they were last found.
        told = {}
        for name, program in programs.items():
            if name in results:
                told[name] = results[name]
            elif tests := stored(name, program):
                explain(tests, program.get("miss", []))
                told[name] = (program, tests)
        TABLE.parent.mkdir(parents=True, exist_ok=True)
        TABLE.write_text(document(told, set(programs) - set(told), described["settings"].strip()))
    for test in unexplained:
        print(f"unexplained: {test['test']}: {test['why']}")
    passed = sum(count(tests, "passed") for _, tests in results.values())
    failed = sum(count(tests, "failed") for _, tests in results.values())
    skipped = sum(count(tests, "skipped") for _, tests in results.values())
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
