"""A team's set-up in network namespaces; tests/team/run explains it. Called with a part's name, it is that part."""

import asyncio
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETWORK = "10.77.0."
DATABASE, STORE, MODEL, BALANCER = (NETWORK + end for end in ("10", "11", "12", "20"))
SERVICES = {"service-1": NETWORK + "21", "service-2": NETWORK + "22"}
WORKERS = {f"worker-{number}": f"{NETWORK}{30 + number}" for number in (1, 2, 3)}
MACHINES = {"database": DATABASE, "store": STORE, "model": MODEL, "balancer": BALANCER, **SERVICES, **WORKERS}
PORT = 8787
URL = f"https://{BALANCER}:{PORT}"
SWEEP = os.environ.get("KERNELWRIGHT_SWEEP", "")
# A full sweep kills as often as a bad week. The number of seconds of a cut of the network is written as `cut:600`.
TRIALS, KILLS = (270, 100) if SWEEP == "full" else (16, 6)
CUT = int(SWEEP.removeprefix("cut:")) if SWEEP.startswith("cut:") else None
if CUT:
    TRIALS = 40
# Longer than any part of a run takes, seconds.
PATIENCE = 60 * TRIALS + 5 * (CUT or 0)


# The parts that are not the product's.

def model():
    """Speaks OpenAI's protocol. The seed of a request decides which step of the task's playbook is the reply."""
    steps = [path.read_text() for path in sorted((ROOT / "kernels/softmax-f32/playbook").glob("*.cu"))]

    class Model(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seed = asked.get("seed", 0)
            # A further kernel, because copies that are compiled to the same code are nobody's parents.
            kernel = f"{steps[seed % len(steps)]}\nextern \"C\" __global__ void variant_{seed}() {{}}"
            text = f"```cuda\n{kernel}\n```\n"
            usage = {"prompt_tokens": 1000, "completion_tokens": 100 + seed % 100, "total_tokens": 1100 + seed % 100}
            time.sleep(float(os.environ["MODEL_SECONDS"]))
            if asked.get("stream"):
                chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
                parts = [
                    {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]},
                    {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                    {**chunk, "choices": [], "usage": usage},
                ]
                body = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
                kind = "text/event-stream"
            else:
                choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
                body = json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice], "usage": usage})
                kind = "application/json"
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    ThreadingHTTPServer((MODEL, 8000), Model).serve_forever()


def store():
    """An S3 server with a bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address=STORE, port=9000, verbose=False)
    server.start()
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    boto3.client("s3", endpoint_url=f"http://{STORE}:9000", **keys).create_bucket(Bucket="evidence")
    threading.Event().wait()


def balancer():
    """Hands each connection to the first service that takes it, from another one on each time."""
    turn = 0

    async def pipe(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def connect(reader, writer):
        nonlocal turn
        turn += 1
        addresses = list(SERVICES.values())
        for offset in range(len(addresses)):
            try:
                opening = asyncio.open_connection(addresses[(turn + offset) % len(addresses)], PORT)
                service = await asyncio.wait_for(opening, 2)
            except (OSError, asyncio.TimeoutError):
                continue
            await asyncio.gather(pipe(reader, service[1]), pipe(service[0], writer))
            return
        writer.close()

    async def serve():
        await (await asyncio.start_server(connect, BALANCER, PORT)).serve_forever()

    asyncio.run(serve())


# The set-up.

def call(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, text=True, capture_output=True, **more).stdout


def make_network():
    # Names of namespaces are files, which are to go with this process.
    pathlib.Path("/run/netns").mkdir(exist_ok=True)
    call("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
    call("ip", "link", "set", "lo", "up")
    call("ip", "link", "add", "hub", "type", "bridge")
    call("ip", "address", "add", f"{NETWORK}1/24", "dev", "hub")
    call("ip", "link", "set", "hub", "up")
    for number, (name, address) in enumerate(MACHINES.items()):
        call("ip", "netns", "add", name)
        call("ip", "link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
        call("ip", "link", "set", f"port{number}", "master", "hub", "up")
        for words in (["link", "set", "lo", "up"], ["address", "add", f"{address}/24", "dev", "eth0"], ["link", "set", "eth0", "up"]):
            call("ip", "-n", name, *words)


class Team:
    """The set-up of one run."""

    def __init__(self, program, folder, model_seconds):
        self.program, self.folder = program, folder
        self.processes = {}
        self.environment = {
            **os.environ,
            "MODEL_SECONDS": str(model_seconds),
            "KERNELWRIGHT_DATABASE": f"postgres://kernelwright@{DATABASE}/kernelwright",
            "AWS_ENDPOINT": f"http://{STORE}:9000", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        }
        folder.chmod(0o755)
        for part in ("shared", "postgres"):
            (folder / part).mkdir()
        (folder / "models.toml").write_text(
            f'[models.scripted]\napi = "openai"\nendpoint = "http://{MODEL}:8000/v1"\nmodel = "scripted"\n'
            "price = { input = 3, output = 15 }\nmax_output_tokens = 4000\ncontext_tokens = 100000\n")
        self.make_certificate()
        self.make_database()
        for name in ("store", "model", "balancer"):
            self.start(name, sys.executable, __file__, name)
        self.wait_for_port(STORE, 9000)
        self.tokens = {name: self.make_token(name, scope) for name, scope in [("ada", "admin"), *((name, "worker") for name in WORKERS)]}
        for name in SERVICES:
            self.serve(name)
        for name in SERVICES:
            self.wait_for_port(SERVICES[name], PORT)
        for name in WORKERS:
            self.join(name)

    def make_certificate(self):
        key, names = self.folder / "key.pem", ",".join(f"IP:{address}" for address in [BALANCER, *SERVICES.values()])
        new = ("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        call(*new, "-x509", "-days", "2", "-subj", "/CN=team", "-keyout", self.folder / "ca.key", "-out", self.folder / "ca.pem")
        call(*new, "-subj", "/CN=service", "-keyout", key, "-out", self.folder / "request.pem")
        (self.folder / "names").write_text(f"subjectAltName={names}\n")
        call("openssl", "x509", "-req", "-days", "2", "-in", self.folder / "request.pem", "-CA", self.folder / "ca.pem", "-CAkey",
             self.folder / "ca.key", "-CAcreateserial", "-extfile", self.folder / "names", "-out", self.folder / "service.pem")

    def postgres(self, *words):
        owner = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")
        return call("ip", "netns", "exec", "database", *owner, *words, cwd=self.folder / "postgres")

    def make_database(self):
        folder = self.folder / "postgres"
        shutil.chown(folder, "postgres", "postgres")
        self.postgres("initdb", f"--pgdata={folder}/data", "--username=kernelwright", "--auth=trust", "--encoding=UTF8")
        with (folder / "data/pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {NETWORK}0/24 trust\n")
        self.start_database()
        self.postgres("psql", f"--host={folder}", "--username=kernelwright", "--dbname=postgres", "--command=CREATE DATABASE kernelwright")

    def start_database(self):
        folder = self.folder / "postgres"
        options = f"-c listen_addresses={DATABASE} -c unix_socket_directories={folder}"
        self.postgres("pg_ctl", f"--pgdata={folder}/data", f"--log={folder}/log", "--wait", f"--options={options}", "start")

    def start(self, name, *words, machine=None):
        log = (self.folder / f"{name}.log").open("a")
        command = ["ip", "netns", "exec", machine or name, *(str(word) for word in words)]
        self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment, cwd=self.folder, start_new_session=True)

    def serve(self, name):
        self.start(name, self.program, "--log-json", "serve", "--listen", f"{SERVICES[name]}:{PORT}", "--tls-cert", "service.pem", "--tls-key",
                   "key.pem", "--data", name, "--shared", "shared", "--models", "models.toml", "--evidence-bucket", "s3://evidence/team")

    def join(self, name):
        self.start(name, self.program, "worker", "join", URL, "--name", name, "--token-file", self.tokens[name], "--ca", "ca.pem",
                   "--data", name, "--least-isolation", "open")

    def kill(self, name):
        """Ends a process and all that it started, as a lost machine does."""
        os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes.pop(name).wait()

    def make_token(self, name, scope):
        file = self.folder / f"{name}.token"
        call("ip", "netns", "exec", "service-1", self.program, "token", "create", "--data", self.folder / "service-1", "--name", name,
             "--scope", scope, "--output", file, env=self.environment)
        return file

    def wait_for_port(self, address, port):
        began = time.monotonic()
        while subprocess.run(["bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}"], capture_output=True).returncode:
            assert time.monotonic() - began < 60, f"nothing listens at {address}:{port}\n{self.logs()}"
            time.sleep(0.1)

    def command(self, *words):
        options = ("--server", URL, "--token-file", self.tokens["ada"], "--ca", self.folder / "ca.pem", "--data", self.folder / "ada")
        done = subprocess.run([str(word) for word in (self.program, *words, *options)], text=True, capture_output=True, env=self.environment)
        return done.stdout if done.returncode == 0 else None

    def launch(self):
        given = self.command("run", ROOT / "kernels/softmax-f32", "--method", "full", "--model", "scripted", "--budget-trials", TRIALS, "--generations", TRIALS,
                             "--seed", 5, "--sweep-percent", 0, "--json")
        assert given, self.logs()
        return json.loads(given)["id"]

    def show(self, run):
        """The run, as soon as the services answer."""
        began = time.monotonic()
        while (shown := self.command("show", run, "--json")) is None:
            assert time.monotonic() - began < 60, f"no service answers\n{self.logs()}"
            time.sleep(0.2)
        shown = json.loads(shown)
        return {"run": shown["run"], "candidates": shown["lineage"]["nodes"]}

    def wait_for(self, run, holds):
        began = time.monotonic()
        while not holds(shown := self.show(run)):
            assert time.monotonic() - began < PATIENCE, f"{json.dumps(shown['run'])[:2000]}\n{self.logs()}"
            time.sleep(0.2)
        return shown

    def wait_for_evidence(self, bundles):
        """Waits until the bucket has so many bundles; workers send them beside their evaluations."""
        count = ("ip", "netns", "exec", "service-1", self.program, "storage", "--data", self.folder / "service-1",
                 "--evidence-bucket", "s3://evidence/team", "--json")
        began = time.monotonic()
        while (found := json.loads(call(*count, env=self.environment))["bucket"]["bundles"]) < bundles:
            assert time.monotonic() - began < 60, f"{found} bundles of {bundles} are in the bucket\n{self.logs()}"
            time.sleep(0.2)

    def wait_for_readiness(self, name):
        began = time.monotonic()
        ask = ("curl", "--silent", "--fail", "--max-time", 5, "--cacert", self.folder / "ca.pem", f"https://{SERVICES[name]}:{PORT}/readyz")
        while subprocess.run([str(word) for word in ask], capture_output=True).returncode:
            assert time.monotonic() - began < 300, f"{name} does not answer\n{self.logs()}"
            time.sleep(0.5)

    def wait_for_worker(self, name):
        began = time.monotonic()
        while True:
            listed = json.loads(self.command("worker", "list", "--json") or "[]")
            if any(worker["name"] == name and worker["alive"] for worker in listed):
                return
            assert time.monotonic() - began < 300, f"{name} does not come back\n{self.logs()}"
            time.sleep(0.5)

    def logs(self):
        return "\n".join(f"== {path.name}\n" + path.read_text()[-3000:] for path in sorted(self.folder.glob("*.log")))

    def stop(self):
        for name in list(self.processes):
            self.kill(name)
        self.postgres("pg_ctl", f"--pgdata={self.folder}/postgres/data", "--mode=immediate", "stop")


def judged(shown):
    return sum(candidate["verdict"] is not None for candidate in shown["candidates"])


def is_over(shown):
    return shown["run"]["state"]["state"] in ("completed", "failed", "cancelled", "paused")


def ending(shown):
    """Everything of a run but ids and times of day."""
    ordinals = {candidate["id"]: candidate["ordinal"] for candidate in shown["candidates"]}
    run = shown["run"]
    return {
        "state": run["state"],
        "trials": run["trials"],
        "candidates": [
            [candidate["ordinal"], candidate["generation"], candidate["operator"], candidate["title"], candidate["verdict"],
             candidate["time_us"], candidate["cost"], [ordinals[parent] for parent in candidate["parents"]]]
            for candidate in sorted(shown["candidates"], key=lambda candidate: candidate["ordinal"])
        ],
        "usage": run["spend"]["usage"],
        "dollars": run["spend"]["dollars"],
        "winner": ordinals[run["promotion"]["candidate"]],
        "promotion": run["promotion"]["state"],
    }


def make_run(program, disturb):
    with tempfile.TemporaryDirectory() as folder:
        # A run in which the network is cut has to last, because it goes on meanwhile.
        team = Team(program, pathlib.Path(folder), CUT / 8 if disturb is cut else 0.2)
        try:
            run = team.launch()
            if disturb:
                disturb(team, run)
            shown = team.wait_for(run, is_over)
            if not disturb:
                # A bundle of evidence that a killed worker had not sent stays with it.
                team.wait_for_evidence(len(shown["candidates"]))
            return ending(shown)
        finally:
            team.stop()


def disturb(team, run):
    """Kills a service, a worker and the database in turn, each after a further verdict."""
    draw = random.Random(3)
    for kill in range(KILLS):
        before = judged(team.show(run))
        shown = team.wait_for(run, lambda shown: is_over(shown) or judged(shown) > before)
        assert not is_over(shown), f"only {kill} kills fell into the run"
        time.sleep(draw.random() * 0.6)
        began = time.monotonic()
        match kill % 3:
            case 0:
                name = draw.choice(list(SERVICES))
                team.kill(name)
                before = judged(team.show(run))
                team.wait_for(run, lambda shown: is_over(shown) or judged(shown) > before)
                team.serve(name)
                team.wait_for_port(SERVICES[name], PORT)
            case 1:
                name = draw.choice(list(WORKERS))
                team.kill(name)
                team.join(name)
            case _:
                name = "the database"
                team.postgres("pg_ctl", f"--pgdata={team.folder}/postgres/data", "--mode=immediate", "stop")
                time.sleep(3)
                team.start_database()
        print(f"killed {name}; {time.monotonic() - began:.1f} s until all was there again", flush=True)


def connect(name, is_connected):
    """Takes a machine's cable out of the switch, or puts it back. The machine itself notices nothing."""
    port = f"port{list(MACHINES).index(name)}"
    call("ip", "link", "set", port, *(("master", "hub") if is_connected else ("nomaster",)))


def cut(team, run):
    """Cuts the network of a service and a worker, then that of the database, for CUT seconds each."""
    for names in (["service-1", "worker-1"], ["database"]):
        before = judged(team.show(run))
        shown = team.wait_for(run, lambda shown: is_over(shown) or judged(shown) > before)
        assert not is_over(shown), f"the run ended before the network of {names} was cut"
        began = time.monotonic()
        for name in names:
            connect(name, False)
        if "database" not in names:
            before = judged(shown)
            team.wait_for(run, lambda shown: is_over(shown) or judged(shown) > before + 3)
            print(f"{' and '.join(names)} cut off: three further verdicts after {time.monotonic() - began:.1f} s", flush=True)
        time.sleep(max(0, began + CUT - time.monotonic()))
        for name in names:
            connect(name, True)
        back = time.monotonic()
        for name in names:
            if name in SERVICES:
                team.wait_for_readiness(name)
            elif name in WORKERS:
                team.wait_for_worker(name)
            else:
                before = judged(team.show(run))
                team.wait_for(run, lambda shown: is_over(shown) or judged(shown) > before)
            print(f"{name} back: at work after {time.monotonic() - back:.1f} s", flush=True)


def main(program):
    make_network()
    began = time.monotonic()
    expected = make_run(program, None)
    print(f"undisturbed: {len(expected['candidates'])} candidates in {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    found = make_run(program, cut if CUT else disturb)
    print(f"disturbed: {len(found['candidates'])} candidates in {time.monotonic() - began:.0f} s", flush=True)
    for part in expected:
        if expected[part] != found[part] and part != "promotion":
            print(f"{part} differ:\n{json.dumps(expected[part], indent=1)}\n{json.dumps(found[part], indent=1)}", file=sys.stderr)
            sys.exit(1)
    states = [one["promotion"]["state"] for one in (expected, found)]
    assert states == ["committed", "committed"], states
    print("both runs end alike: candidates, costs and winner")


if __name__ == "__main__":
    parts = {"model": model, "store": store, "balancer": balancer}
    if sys.argv[1] in parts:
        parts[sys.argv[1]]()
    else:
        main(pathlib.Path(sys.argv[1]).resolve())
