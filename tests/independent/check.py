"""Asks independent model servers through `kernelwright model check` and prints what held.

Usage: check.py SERVERS KERNELWRIGHT; tests/independent/run knows both.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from importlib.metadata import version
from pathlib import Path

SERVERS, PROGRAM = Path(sys.argv[1]), sys.argv[2]
KEY = "sk-independent"
# Starting LiteLLM's proxy takes half a minute on a slow machine.
PATIENCE_S = 180
APIS = ("openai", "anthropic")
ALL_APIS = (*APIS, "gemini")
PATHS = {"openai": "/v1", "anthropic": "", "gemini": "/v1beta"}
# The limits are short, and the pauses long enough for a judge to see that they grow.
ENTRY = """
[models.m]
api = "{api}"
endpoint = "{endpoint}"
model = "{model}"
key_file = "{key}"
stream = {stream}
price = {{ input = 1.0, output = 2.0 }}
timeouts = {{ first_token = 20, idle = 2, total = 40 }}
backoff = {{ base = 0.3, longest = 5 }}
"""


class Server:
    """A process that listens on a loopback port, and is ended with its children."""

    def __init__(self, name, command, folder, ready, **environment):
        self.name = name
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{name}.log"
        self.process = subprocess.Popen(
            [*map(str, command), "--host", "127.0.0.1", "--port", str(self.port)],
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self.ready = ready

    def wait(self):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and self.process.poll() is None:
            try:
                urllib.request.urlopen(self.url + self.ready, timeout=2).close()
                return
            except urllib.error.HTTPError:
                return  # It answers, whatever it thinks of the question.
            except OSError:
                time.sleep(0.2)
        sys.exit(f"{self.name} did not come up:\n{self.log.read_text()[-4000:]}")

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


class Table:
    """What was checked, line by line."""

    def __init__(self, folder):
        self.folder = folder
        self.failures = 0

    def check(self, server, api, stream, case, endpoint, model, expect, key=KEY):
        key_file = self.folder / "key"
        key_file.write_text(key)
        key_file.chmod(0o600)
        entry = ENTRY.format(
            api=api, endpoint=endpoint, model=model, key=key_file, stream=str(stream).lower()
        )
        self.ask(server, api, "stream" if stream else "whole", case, entry, expect)

    def ask(self, server, api, mode, case, entry, expect):
        models = self.folder / "models.toml"
        models.write_text(entry)
        command = [PROGRAM, "model", "check", "m", "--json", "--models", models]
        # Programs that are models find their settings in this folder.
        environment = {**os.environ, "HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder / ".config")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment)
        try:
            found = json.loads(done.stdout)
        except ValueError:
            found = {"answers": False, "reason": "none", "message": done.stderr}
        wrong = [
            f"{name} is {found.get(name)!r}"
            for name, wanted in expect.items()
            if not (wanted(found.get(name)) if callable(wanted) else found.get(name) == wanted)
        ]
        self.line(server, api, mode, case, wrong, found)

    def line(self, server, api, mode, case, wrong, found):
        self.failures += bool(wrong)
        state = "ok" if not wrong else "FAILED"
        print(f"{server:8} {api:10} {mode:7} {case:34} {state}", flush=True)
        if wrong:
            print(f"    {'; '.join(wrong)}\n    {json.dumps(found)[:600]}", flush=True)


def answers(stream, text, attempts=1, end="complete"):
    """A reply with this text, counted by the server."""
    return {
        "answers": True,
        "text": text,
        "end": end,
        "usage_estimated": False,
        "attempts": attempts,
        "cost": lambda cost: cost is not None and cost > 0,
        "first_token_s": (lambda s: s is not None) if stream else None,
    }


def fails(reason, permanent):
    return {"answers": False, "reason": reason, "permanent": permanent}


def script(name):
    """A program of the servers' environment, which was moved after it was made: the interpreter
    that such programs name in their first line is no longer there."""
    return [SERVERS / "bin/python", SERVERS / "bin" / name]


def is_text(text):
    return isinstance(text, str) and len(text) > 5


def litellm(table, server):
    for api in ALL_APIS:
        endpoint = server.url + PATHS[api]
        for stream in (True, False):
            whole = answers(stream, "I am ready.")
            if api == "anthropic" and stream:
                # Its made-up replies to messages come in one piece even where a stream is asked for.
                whole["first_token_s"] = None
            if api == "gemini" and stream:
                # It sends no counts in a stream that it translates into this protocol.
                whole["usage_estimated"] = True
            table.check("LiteLLM", api, stream, "a made-up reply", endpoint, "mocked", whole)
            chained = {**answers(stream, is_text), "usage_estimated": whole["usage_estimated"]}
            case = "through it to LLMock"
            table.check("LiteLLM", api, stream, case, endpoint, "chained", chained)
        # Without a database it knows one key, and calls any other a bad request.
        rejected = fails("rejected", True)
        table.check("LiteLLM", api, True, "a wrong key", endpoint, "mocked", rejected, "sk-wrong")
        table.check("LiteLLM", api, True, "an unknown model", endpoint, "nobody", rejected)


def llmock(table, server):
    """Its judge looks at each case by itself: a later call would pass for a retry."""
    fail = {"type": "fail"}
    fault = {"type": "stream_fault", "after_chunks": 2}
    limited = {**fail, "status": 429, "retry_after": 1, "times": 2}
    cut = {"type": "reply", "text": "Half a", "finish_reason": "length"}
    overflow = {
        **fail,
        "status": 400,
        "code": "context_length_exceeded",
        "message": "This model's maximum context length was exceeded.",
    }
    cases = [
        ("a reply", None, answers(True, is_text)),
        ("a reply cut at its limit", cut, answers(True, "Half a", end="length")),
        ("429 twice, retry after 1 s", limited, answers(True, is_text, 3)),
        ("500 once", {**fail, "status": 500}, answers(True, is_text, 2)),
        ("503 twice", {**fail, "status": 503, "times": 2}, answers(True, is_text, 3)),
        ("529 once", {**fail, "status": 529}, answers(True, is_text, 2)),
        ("a connection dropped in mid-stream", {**fault, "kind": "disconnect"}, answers(True, is_text, 2)),
        ("a stream that ends early", {**fault, "kind": "truncate"}, answers(True, is_text, 2)),
        ("a stream that hangs", {**fault, "kind": "stall", "stall_seconds": 30}, answers(True, is_text, 2)),
        ("a broken chunk", {**fault, "kind": "malformed"}, answers(True, is_text, 2)),
        ("a slow first token", {"type": "slow_first_token", "seconds": 1}, answers(True, is_text)),
        ("401", {**fail, "status": 401}, fails("auth", True)),
        ("a prompt that is too long", overflow, fails("context_too_long", True)),
    ]
    for api in APIS:
        endpoint = server.url + ("/v1" if api == "openai" else "/anthropic")
        model = "gpt-4o" if api == "openai" else "claude-sonnet-4-5"
        for case, behaviour, expect in cases:
            server.call("/_llmock/reset", {})
            if behaviour:
                server.call("/_llmock/scenario", {"behaviors": [behaviour]})
            table.check("LLMock", api, True, case, endpoint, model, expect)
            verdict = server.call("/_llmock/verdict")
            findings = [finding["code"] for finding in verdict["findings"]]
            table.line("LLMock", api, "judge", case, findings, verdict)
        server.call("/_llmock/reset", {})
        table.check("LLMock", api, False, "a reply", endpoint, model, answers(False, is_text))


def aimock(table, server):
    for api in ALL_APIS:
        endpoint = server.url + PATHS[api]
        for stream in (True, False):
            expect = answers(stream, "I am ready.")
            table.check("AIMock", api, stream, "a reply", endpoint, "scripted", expect)


COMMAND = """
[models.m]
api = "command"
program = {program}
timeouts = {{ total = 60 }}
"""


def command_line(table, server, folder):
    """The command line `llm`, a program by another author, as a model. It asks the scripted server."""
    settings = folder / ".config/io.datasette.llm"
    settings.mkdir(parents=True)
    entry = {"model_id": "scripted", "model_name": "scripted", "api_base": server.url + "/v1"}
    # JSON is YAML.
    (settings / "extra-openai-models.yaml").write_text(json.dumps([entry]))
    (settings / "keys.json").write_text(json.dumps({"openai": KEY}))
    program = [*map(str, script("llm")), "--no-log", "--no-stream", "-m", "scripted"]
    answered = {"answers": True, "text": lambda text: text.strip() == "I am ready.", "usage_estimated": True}
    table.ask("llm", "command", "whole", "a reply", COMMAND.format(program=json.dumps(program)), answered)
    unknown = [*program[:-1], "nobody"]
    failed = {"answers": False, "message": lambda message: "nobody" in message}
    table.ask("llm", "command", "whole", "an unknown model", COMMAND.format(program=json.dumps(unknown)), failed)


def main():
    with tempfile.TemporaryDirectory(prefix="kernelwright-independent-") as name:
        folder = Path(name)
        table = Table(folder)
        running = []
        try:
            # A stream must last for its judge to see that somebody stopped reading.
            slow = [*script("llmock"), "serve", "--stream-chunk-delay-ms", "20"]
            first = Server("llmock", slow, folder, "/health")
            running.append(first)
            fixtures = folder / "fixtures.json"
            reply = {
                "match": {"userMessage": "ready"},
                "response": {
                    "content": "I am ready.",
                    "usage": {
                        "prompt_tokens": 20,
                        "completion_tokens": 4,
                        "total_tokens": 24,
                        "input_tokens": 20,
                        "output_tokens": 4,
                    },
                },
            }
            fixtures.write_text(json.dumps({"fixtures": [reply]}))
            node = SERVERS / "node/node_modules/.bin/llmock"
            third = Server("aimock", [node, "-f", fixtures, "--log-level", "warn"], folder, "/health")
            running.append(third)
            models = [
                {
                    "model_name": "mocked",
                    "litellm_params": {
                        "model": "openai/mocked",
                        "api_key": "none",
                        "mock_response": "I am ready.",
                    },
                },
                {
                    "model_name": "chained",
                    "litellm_params": {
                        "model": "openai/gpt-4o",
                        "api_key": "none",
                        "api_base": first.url + "/v1",
                    },
                },
            ]
            config = folder / "litellm.yaml"
            # JSON is YAML.
            config.write_text(
                json.dumps({"model_list": models, "general_settings": {"master_key": KEY}})
            )
            second = Server(
                "litellm",
                [*script("litellm"), "--config", config],
                folder,
                "/health/liveliness",
                LITELLM_LOCAL_MODEL_COST_MAP="True",
            )
            running.append(second)
            for server in running:
                server.wait()
            package = SERVERS / "node/node_modules/@copilotkit/aimock/package.json"
            npm = json.loads(package.read_text())["version"]
            print(f"LiteLLM {version('litellm')}, LLMock {version('llmock')}, AIMock {npm}\n")
            litellm(table, second)
            llmock(table, first)
            aimock(table, third)
            command_line(table, third, folder)
        finally:
            for server in running:
                server.stop()
    print(f"\n{table.failures} failures" if table.failures else "\neverything holds")
    sys.exit(1 if table.failures else 0)


if __name__ == "__main__":
    main()
