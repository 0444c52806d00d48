"""Drives `kernelwright mcp` with the official client for Python.

Usage: check.py KERNELWRIGHT; tests/mcp/run knows it.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from mcp import Client, Implementation, StdioServerParameters

PROGRAM = sys.argv[1]
TASK = Path(__file__).resolve().parent.parent / "honest/mean-f32"
# The service compiles its baseline first.
PATIENCE_S = 180
WRONG = (TASK / "baseline.cu").read_text().replace("sum / C", "sum / (C + 1)")
RIGHT = (TASK / "warp-per-row.cu").read_text()


def start(folder):
    """Starts a service with a worker, and returns it with its address."""
    data = folder / "data"
    command = [PROGRAM, "serve", "--with-local-worker", "--listen", "127.0.0.1:0", "--data", data]
    service = subprocess.Popen(command, stderr=(folder / "service.log").open("w"))
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and service.poll() is None:
        try:
            return service, json.loads((data / "server.json").read_text())["url"]
        except (OSError, ValueError):
            time.sleep(0.1)
    service.kill()
    sys.exit("the service did not start:\n" + (folder / "service.log").read_text())


def launch(address):
    command = [PROGRAM, "run", TASK, "--method", "external", "--server", address, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["id"]


async def call(client, tool, fails=False, **arguments):
    result = await client.call_tool(tool, arguments)
    text = result.content[0].text
    assert bool(result.is_error) == fails, f"{tool}: {text}"
    return text


async def judged(client, text):
    """The verdict, asked for until it is there."""
    candidate = text.split()[1]
    while "no verdict yet" in text:
        text = await call(client, "verdict", candidate=candidate)
    return candidate, text


@contextlib.contextmanager
def connection(address, run, transport):
    """What the client connects to: the program itself, or its address over HTTP."""
    arguments = ["mcp", "--server", address, "--run", run]
    if transport == "stdio":
        yield StdioServerParameters(command=PROGRAM, args=arguments)
        return
    server = subprocess.Popen([PROGRAM, *arguments, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().split()[-1]
    finally:
        server.terminate()
        server.wait()


async def drive(server, mode):
    info = Implementation(name=f"python-{mode}", version=version("mcp"))
    async with Client(server, client_info=info, mode=mode) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"brief", "submit", "verdict", "profile", "search_attempts"} <= tools, tools
        brief = await call(client, "brief")
        assert "Mean of every row" in brief and "45 of 45 left" in brief, brief

        text = await call(client, "submit", source=WRONG, hypothesis="divides by one more")
        wrong, text = await judged(client, text)
        assert "incorrect_output" in text and "mean[" in text, text
        text = await call(client, "submit", source=WRONG, hypothesis="again")
        assert f"the run has this code as {wrong}" in text, text

        text = await call(client, "submit", source=RIGHT, hypothesis="coalesced loads")
        right, text = await judged(client, text)
        assert "accepted" in text and "the baseline's speed" in text, text
        text = await call(client, "profile", candidate=right)
        assert "bottleneck" in text and "modelled" in text, text
        text = await call(client, "search_attempts", verdict="accepted")
        assert right in text and f"python-{mode}" in text, text
        text = await call(client, "verdict", fails=True, candidate="seven")
        assert text.startswith("failed to read the arguments"), text

        resources = (await client.list_resources()).resources
        names = {resource.name for resource in resources}
        assert {"reference.cu", "baseline.cu", "best.cu"} <= names, names
        assert "task.toml" not in names, names
        best = next(resource for resource in resources if resource.name == "best.cu")
        contents = (await client.read_resource(best.uri)).contents
        assert contents[0].text == RIGHT


def main():
    with tempfile.TemporaryDirectory(prefix="kernelwright-mcp-") as name:
        service, address = start(Path(name))
        try:
            # `legacy` begins with `initialize`; `auto` takes the newest form that both know.
            for transport in ("stdio", "http"):
                for mode in ("legacy", "auto"):
                    with connection(address, launch(address), transport) as server:
                        asyncio.run(asyncio.wait_for(drive(server, mode), PATIENCE_S))
                    print(f"{transport}, mode {mode}: ok", flush=True)
        finally:
            service.terminate()
            service.wait()
    print(f"mcp {version('mcp')}: everything holds")


if __name__ == "__main__":
    main()
