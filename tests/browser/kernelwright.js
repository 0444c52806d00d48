// The service itself, with a worker, for tests that want the real thing.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PROGRAM = join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), "debug", "kernelwright");

export class Kernelwright {
  /**
   * Starts a service with `files` in its data folder; `models.toml` there names its models. With a
   * `scope` it has no worker, asks for tokens, and `token` is one of that scope. It listens on a free port, or on
   * `port`.
   */
  static async start(files = {}, { scope = null, port = 0 } = {}) {
    assert.ok(existsSync(PROGRAM), `there is no ${PROGRAM}: run cargo build --workspace`);
    const made = new Kernelwright();
    made.folder = await mkdtemp(join(tmpdir(), "kernelwright-"));
    for (const [name, text] of Object.entries(files)) await writeFile(join(made.folder, name), text);
    const { KERNELWRIGHT_MODELS: _, ...environment } = process.env;
    if (scope !== null) {
      const create = ["token", "create", "--name", "browser", "--scope", scope, "--data", made.folder];
      const { stdout } = await promisify(execFile)(PROGRAM, create, { env: environment });
      made.token = stdout.trim();
    }
    const worker = scope === null ? ["--with-local-worker"] : [];
    made.isTemporary = true;
    await made.#serve(PROGRAM, worker, environment, port);
    return made;
  }

  /** Starts a service without a worker on a data folder that is kept. */
  static async on(folder, program) {
    assert.ok(existsSync(program), `there is no ${program}: run cargo build --release --package server`);
    const made = new Kernelwright();
    made.folder = folder;
    await made.#serve(program, [], process.env, 0);
    return made;
  }

  async #serve(program, options, env, port) {
    this.child = spawn(program, ["serve", "--listen", `127.0.0.1:${port}`, "--data", this.folder, ...options], { cwd: this.folder, env, stdio: ["ignore", "pipe", "pipe"] });
    this.exited = new Promise((done) => this.child.on("exit", done));
    this.origin = await this.#address();
  }

  /** The address from the log; whatever else is logged is read and forgotten. */
  #address() {
    return new Promise((found, failed) => {
      let log = "";
      const read = (chunk) => {
        log += chunk;
        const origin = /serving (http:\/\/\S+)/.exec(log)?.[1];
        if (origin) found(origin);
      };
      this.child.stdout.on("data", read);
      this.child.stderr.on("data", read);
      void this.exited.then((code) => failed(new Error(`the service ended with ${code}: ${log}`)));
    });
  }

  async stop() {
    this.child.kill("SIGTERM");
    await this.exited;
    if (this.isTemporary) await rm(this.folder, { recursive: true, force: true });
  }

  async get(path) {
    const response = await fetch(`${this.origin}/api/v1${path}`);
    assert.equal(response.status, 200, await response.clone().text());
    return response.json();
  }

  /** Creates something by a request, and returns it. */
  async post(path, body) {
    const response = await fetch(`${this.origin}/api/v1${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    assert.equal(response.status, 201, await response.clone().text());
    return response.json();
  }

  /** Stores the task of a folder. */
  async upload(folder) {
    const root = fileURLToPath(folder);
    const entries = await readdir(root, { recursive: true, withFileTypes: true });
    const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    const files = Object.fromEntries(await Promise.all(paths.map(async (path) => [relative(root, path), await readFile(path, "utf8")])));
    return this.post("/tasks", { files });
  }
}
