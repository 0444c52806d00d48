// A stand-in for the service: it serves the built dashboard under the same content security
// policy, and a world that tests change while pages watch.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { extname } from "node:path";

import { columns, curve, generations } from "./columns.js";
import { answerView, insights } from "./views.js";
import { detail } from "./world.js";

const DIST = new URL("../../crates/server/ui/dist/", import.meta.url);
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
/** The most candidates of a lineage in full. */
const LINEAGE = 2_000;
/** The last parts of routes that give a run a direction. */
const DIRECTIONS = ["hint", "pin", "ban", "insight", "withdraw", "budget", "model", "fork", "reevaluate", "promote"];
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export class Service {
  constructor(world) {
    this.world = world;
    /** Requests as "METHOD path", for tests that count them. */
    this.requests = [];
    /** Answers every request of the API with a problem while set. */
    this.problem = null;
    /** Answers requests for new runs with a problem while set. */
    this.refusal = null;
    /** The token that the service asks for, and whether the browser has signed in with it. */
    this.token = null;
    this.signedIn = false;
    /** Directions that were asked for, each with its path and its body. */
    this.directions = [];
    this.readers = new Set();
    /** Past events that streams began with. */
    this.sent = 0;
    /** Workers that the service's health counts. */
    this.workers = 1;
    this.server = createServer((request, response) => void this.#answer(request, response));
  }

  /** Listens on any free port, or on the port that it had before. */
  async start(port = 0) {
    await new Promise((done) => this.server.listen(port, "127.0.0.1", done));
    this.origin = `http://127.0.0.1:${this.server.address().port}`;
  }

  async stop() {
    this.dropReaders();
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  /** Adds an event to the log and sends it to whoever reads. */
  emit(what) {
    const event = { id: this.world.events.length + 1, run: this.world.live, at: new Date().toISOString(), what };
    this.world.events.push(event);
    for (const reader of this.readers) reader.write(frame(event));
  }

  /** Ends every event stream, as a restart of the service would. */
  dropReaders() {
    for (const reader of this.readers) reader.destroy();
    this.readers.clear();
  }

  /** Resolves when a page closes its event stream. */
  readerLeft() {
    return Promise.race([...this.readers].map((reader) => new Promise((left) => reader.on("close", left))));
  }

  async #answer(request, response) {
    const url = new URL(request.url, this.origin);
    if (url.pathname.startsWith("/api/v1/")) {
      this.requests.push(`${request.method} ${url.pathname}`);
      this.#api(request, response, url);
    } else await this.#file(response, url.pathname);
  }

  async #file(response, path) {
    const name = extname(path) === "" ? "index.html" : path.slice(1);
    try {
      const content = await readFile(new URL(name, DIST));
      response.writeHead(200, { "content-type": TYPES[extname(name)], "content-security-policy": POLICY });
      response.end(content);
    } catch {
      response.writeHead(404).end();
    }
  }

  #api(request, response, url) {
    const [, , , collection, id, part, form] = url.pathname.split("/");
    if (collection === "session") return void this.#session(request, response);
    if (this.problem) return send(response, this.problem.status, this.problem);
    if (this.token && !this.signedIn) return send(response, 401, problem(401, "no-token", "No token", "this service asks for a token"));
    const { world } = this;
    if (collection === "health") return send(response, 200, { version: "0.1.0", workers: this.workers, queued: 1 });
    if (request.method === "POST" && id === undefined && collection === "runs" && this.refusal) return send(response, this.refusal.status, this.refusal);
    const view = answerView(world, request, url);
    if (view) return view.body === undefined ? response.writeHead(view.status).end() : send(response, view.status, view.body);
    if (["tasks", "models", "workers"].includes(collection)) return send(response, 200, world[collection]);
    if (collection === "devices") return send(response, 200, world.devices);
    if (collection === "runs" && id === undefined) {
      const tag = url.searchParams.get("tag");
      return send(response, 200, { runs: world.runs.filter(({ tags }) => tag === null || tags.includes(tag)), next: null });
    }
    if (collection === "candidates") {
      const node = world.nodes.find((other) => other.id === id);
      return node ? send(response, 200, detail(world.nodes, node, world.live)) : unknown(response, "candidate", id);
    }
    const run = world.runs.find((other) => other.id === id);
    if (collection !== "runs" || !run) return unknown(response, "run", id);
    const nodes = run.id === world.live ? world.nodes : [];
    switch (part) {
      case undefined:
        return send(response, 200, run);
      case "lineage":
        if (form === "columns") return send(response, 200, columns(nodes, url.searchParams));
        if (form === "generations") return send(response, 200, generations(nodes));
        return send(response, 200, { nodes: nodes.slice(0, LINEAGE), truncated: nodes.length > LINEAGE });
      case "curve":
        return send(response, 200, curve(nodes, Number(url.searchParams.get("buckets") ?? 400)));
      case "candidates": {
        const after = Number(url.searchParams.get("cursor") ?? -1);
        const limit = Number(url.searchParams.get("limit") ?? 100);
        const wanted = (name) => url.searchParams.get(name);
        const rest = nodes.filter(
          (node) =>
            node.ordinal > after &&
            (!wanted("ids") || wanted("ids").split(",").includes(node.id)) &&
            (!wanted("digest") || detail(nodes, node, world.live).digest === wanted("digest")) &&
            (!wanted("verdict") || node.verdict === wanted("verdict")) &&
            (!wanted("operator") || node.operator.operator === wanted("operator")) &&
            (!wanted("proposer") || node.proposer === wanted("proposer")) &&
            (!wanted("text") || node.title.includes(wanted("text"))),
        );
        return send(response, 200, { candidates: rest.slice(0, limit), next: rest.length > limit ? String(rest[limit - 1].ordinal) : null });
      }
      case "tags":
        return void this.#tag(request, response, run);
      case "steering":
        return send(response, 200, world.steering ?? []);
      case "lessons":
        return void response.writeHead(200, { "content-type": "text/markdown; charset=utf-8" }).end(world.lessons ?? "");
      case "insights":
        return send(response, 200, insights(this.world, run.id));
      case "events":
        return this.#events(request, response, url, run);
      default:
        if (DIRECTIONS.includes(part)) return void this.#steer(request, response, run, part);
        return this.#control(response, run, part);
    }
  }

  /** The API's answer about the browser's session. */
  session() {
    const signed = this.token !== null && this.signedIn;
    return { required: this.token !== null, name: signed ? "ada" : null, scope: signed ? "admin" : null };
  }

  async #session(request, response) {
    if (request.method === "DELETE") {
      this.signedIn = false;
      return response.writeHead(204).end();
    }
    if (request.method === "POST") {
      let body = "";
      for await (const part of request) body += part;
      if (JSON.parse(body).token !== this.token) return send(response, 401, problem(401, "wrong-token", "Wrong token", "no token of this service has this secret"));
      this.signedIn = true;
    }
    send(response, 200, this.session());
  }

  #events(request, response, url, run) {
    const after = Number(request.headers["last-event-id"] ?? url.searchParams.get("after") ?? 0);
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    response.write("retry: 50\n\n");
    for (const event of this.world.events) {
      if (event.id <= after || event.run !== run.id) continue;
      response.write(frame(event));
      this.sent += 1;
    }
    this.readers.add(response);
    response.on("close", () => this.readers.delete(response));
  }

  async #steer(request, response, run, action) {
    const body = await json(request);
    if (this.refusal) return send(response, this.refusal.status, this.refusal);
    this.directions.push({ path: request.url, body });
    const entries = (this.world.steering ??= []);
    const entry = entries.length + 1;
    const { candidate } = body;
    const about = candidate ? { candidate, ordinal: this.world.nodes.find(({ id }) => id === candidate).ordinal } : {};
    const given = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
    const what = {
      hint: () => ({ kind: "hint", text: body.text, prompts: body.prompts ?? null }),
      pin: () => ({ kind: "pin", ...about }),
      ban: () => (body.idea ? { kind: "avoid", idea: body.idea } : { kind: "ban", ...about, descendants: body.descendants ?? false }),
      insight: () => ({ kind: "insight", ...about, text: body.text }),
      withdraw: () => ({ kind: "withdraw", withdrawn: body.entry }),
      budget: () => ({ kind: "budget", before: run.budget, after: { ...run.budget, ...given } }),
      model: () => ({ kind: "model", from: body.from, to: body.to }),
      fork: () => ({ kind: "fork", ...about, fork: run.id }),
      reevaluate: () => ({ kind: "reevaluate", ...about }),
      promote: () => ({ kind: "promote", ...about }),
    }[action]();
    const made = { entry, at: new Date().toISOString(), actor: "a caller without a token", since: this.world.nodes.length, withdrawn_by: null, ...what };
    if (action === "withdraw") entries[body.entry - 1].withdrawn_by = entry;
    for (const insight of this.world.views?.insights ?? []) {
      if (action === "insight" && insight.candidate === candidate) Object.assign(insight, { edit: entry, corrected: body.text });
      if (action === "withdraw" && insight.edit === body.entry) Object.assign(insight, { edit: null, corrected: null });
    }
    entries.push(made);
    this.emit({ kind: "steered", entry, actor: made.actor, what });
    if (action === "budget") run.budget = what.after;
    if (action === "fork") return send(response, 201, run);
    if (action === "promote") return send(response, 202, { id: run.id, candidate, repository: "/data/promotions.git", branch: "kernelwright-modelled/row-softmax", state: { state: "confirming" }, waits: run.state.state === "paused" ? `the run is paused (${run.state.reason}); the confirmation begins when the run is resumed` : null, checks: [] });
    send(response, action === "reevaluate" ? 202 : 200, made);
  }

  async #tag(request, response, run) {
    const { tags } = await json(request);
    const wrong = tags.find((tag) => !/^[\p{L}\p{N}\-_./:]{1,40}$/u.test(tag));
    if (wrong !== undefined) return send(response, 422, { ...problem(422, "invalid-request", "Invalid request", "one problem"), problems: [{ file: "tags", line: 0, column: 0, message: `"${wrong}" is no tag`, fix: "write a word without blanks" }] });
    run.tags = [...new Set(tags)].sort();
    send(response, 200, run);
  }

  #control(response, run, action) {
    const states = {
      pause: { state: "paused", reason: "paused by request" },
      resume: { state: "running" },
      finish: run.state,
      cancel: { state: "cancelled" },
    };
    if (!(action in states)) return unknown(response, "route", action);
    run.state = states[action];
    send(response, 200, run);
    this.emit({ kind: "run_changed", state: run.state });
  }
}

function frame(event) {
  return `id: ${event.id}\ndata: ${JSON.stringify(event)}\n\n`;
}

function send(response, status, value) {
  response.writeHead(status, { "content-type": status < 400 ? "application/json" : "application/problem+json" });
  response.end(JSON.stringify(value));
}

function problem(status, code, title, detail) {
  return { type: `/problems/${code}`, title, status, detail };
}

function unknown(response, subject, id) {
  send(response, 404, {
    type: `/problems/unknown-${subject}`,
    title: `Unknown ${subject}`,
    status: 404,
    detail: `there is no ${subject} ${id}; list what there is first`,
  });
}
