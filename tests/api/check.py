"""Checks a running service against its OpenAPI description with schemathesis.

Makes a synthetic run, so that there is something to read, serves it on loopback, and sends the requests
that schemathesis generates, valid and invalid ones. A finding is an answer of 500 or above, or one that
the description does not have: another status, content type, header or shape of the body.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TASK = ROOT / "kernels" / "softmax-f32"
# Candidates of the synthetic run.
CANDIDATES = 200
# Operations that wait by design: a stream without end, and a long poll.
WAITING = ["/api/v1/runs/{id}/events", "/api/v1/workers/{id}/lease"]
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
]
# Seconds until a service must have started.
START_S = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("synthetic_run", type=Path)
    parser.add_argument("--examples", type=int, default=4, help="most requests of each operation and phase")
    parser.add_argument("--seconds", type=int, default=30, help="time limit of all requests")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernelwright-api-") as folder:
        made = [arguments.synthetic_run, f"{folder}/data", str(CANDIDATES)]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        service, address = start(arguments.program.resolve(), Path(folder))
        try:
            status = check(arguments, Path(folder), address, populate(address))
            if service.poll() is None:
                return status
            print("the service ended meanwhile", file=sys.stderr)
            return 1
        finally:
            service.terminate()
            service.wait()


def start(program: Path, folder: Path) -> tuple[subprocess.Popen, str]:
    """Starts a service on a free port; returns it with its address, which the log names."""
    command = [program, "serve", "--listen", "127.0.0.1:0", "--data", folder / "data"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KERNELWRIGHT_") or name == "KERNELWRIGHT_CACHE"}
    with open(folder / "log", "wb") as log:
        service = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=kept)
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        text = (folder / "log").read_text(errors="replace")
        if found := re.search(r"http://127\.0\.0\.1:\d+", text):
            return service, found[0]
        if service.poll() is not None:
            raise SystemExit(f"the service ended:\n{text}")
        time.sleep(0.1)
    service.kill()
    raise SystemExit(f"the service did not start in {START_S} s")


def request(address: str, path: str, body: object = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    message = urllib.request.Request(f"{address}/api/v1{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(message, timeout=60) as answer:
        return json.load(answer)


def populate(address: str) -> dict[str, list[str]]:
    """Stores a task and a run that waits for a worker, and returns names that requests may use."""
    files = {}
    for path in TASK.rglob("*"):
        if path.is_file() and path.suffix != ".cubin":
            files[str(path.relative_to(TASK))] = path.read_text()
    task = request(address, "/tasks", {"files": files})["name"]
    waiting = request(address, "/runs", {"task": task, "method": "external"})["id"]
    runs = request(address, "/runs")["runs"]
    judged = next(run for run in runs if run["id"] != waiting)
    candidates = request(address, f"/runs/{judged['id']}/candidates")["candidates"]
    return {
        "task": sorted({task, judged["task"]}),
        "run": [judged["id"], waiting],
        "candidate": [candidate["id"] for candidate in candidates[:8]],
    }


def check(arguments: argparse.Namespace, folder: Path, address: str, found: dict[str, list[str]]) -> int:
    """Runs schemathesis. Paths use the names that were found; everything else is generated."""
    named = {
        "/api/v1/runs/{id}": ("id", found["run"]),
        "/api/v1/candidates/{id}": ("id", found["candidate"]),
        "/api/v1/tasks/{name}": ("name", found["task"]),
    }
    lines = []
    for prefix, (parameter, values) in named.items():
        lines += [
            "[[operations]]",
            f"include-path-regex = {json.dumps('^' + re.escape(prefix))}",
            f'parameters = {{ "path.{parameter}" = {json.dumps(values)} }}',
        ]
    config = folder / "schemathesis.toml"
    config.write_text("\n".join(lines))
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", config, "run", f"{address}/api/openapi.json"]
    command += ["--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing"]
    command += ["--max-examples", str(arguments.examples), "--max-time", str(arguments.seconds)]
    command += ["--seed", str(arguments.seed), "--request-timeout", "30", "--generation-database", "none"]
    command += ["--continue-on-failure", "--no-color", "--suppress-health-check", "all", "--warnings", "off"]
    for path in WAITING:
        command += ["--exclude-path", path]
    return subprocess.run(command, cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
