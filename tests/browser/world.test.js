// The stand-in must say what the service would say: every value of its world is held against
// the service's own description of its API.

import assert from "node:assert/strict";
import { it } from "node:test";

import { assertSpeaks } from "./schema.js";
import { Service } from "./service.js";
import { accept, answer, BEST, detail, draft, promote, propose, settled, timedInTurn, world } from "./world.js";

it("the world's values are the API's", () => {
  const made = world();
  assertSpeaks("RunView", made.runs);
  assertSpeaks("CandidateSummary", made.nodes);
  assertSpeaks("Event", made.events);
  assertSpeaks("TaskView", made.tasks);
  assertSpeaks("FleetHealth", [made.devices]);
  assertSpeaks("WorkerView", made.workers);
  assertSpeaks("DeviceView", made.devices.devices);
  assertSpeaks("ControlTally", made.devices.devices.map((device) => device.controls));
  assertSpeaks("CandidateDetail", made.nodes.map((node) => detail(made.nodes, node, made.live)));
});

it("and so is who has signed in", () => {
  const service = new Service(world());
  const views = [service.session()];
  service.token = "kw_right";
  views.push(service.session());
  service.signedIn = true;
  views.push(service.session());
  assertSpeaks("SessionView", views);
});

it("and so is what becomes of them", () => {
  const made = world();
  const what = [accept(made, 17, 5.1), propose(made, "one more"), draft(made, "fast"), answer(made, 20), promote(made)];
  assertSpeaks("Event", what.map((kind, index) => ({ id: 1000 + index, run: made.live, at: "2026-11-21T14:05:00Z", what: kind })));
  assertSpeaks("RunView", made.runs);
  assertSpeaks("CandidateSummary", made.nodes);
});

it("and so is a candidate that was timed in turn", () => {
  const made = world();
  const level = { kind: "level", screening: settled(0.0001, "not_faster") };
  const timed = timedInTurn(detail(made.nodes, made.nodes[BEST], made.live), level);
  assertSpeaks("CandidateDetail", [timed]);
  assertSpeaks("Measurement", [timed.evaluation.measurement]);
});

it("a value that is not the API's is noticed", () => {
  const [node] = world().nodes;
  assert.throws(() => assertSpeaks("CandidateSummary", [{ ...node, ordinal: "first" }]), /must be integer/);
  assert.throws(() => assertSpeaks("CandidateSummary", [{ ...node, sumary: "" }]), /no such property/);
});
