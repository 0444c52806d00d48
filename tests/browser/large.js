// A run of many candidates, in the API's own values, without chance.

import { candidateId, world } from "./world.js";

/** Candidates of one generation. */
const GENERATION = 200;
const VERDICTS = ["accepted", "accepted", "accepted", "compile_rejected", "incorrect_output", "data_race", "accepted", "timeout", "gate_rejected", "accepted"];

/** Candidates between two resets of islands, and islands that a reset begins again. */
const RESET = { every: 60, islands: 2 };

/** A generator of numbers from 0 up to `below`, the same in every run. */
function chance() {
  let state = 20_261;
  return (below) => {
    state = (state * 16_807) % 2_147_483_647;
    return Math.floor((state / 2_147_483_647) * below);
  };
}

/** The world with its live run replaced by one of `size` candidates, written by models, on so many islands. */
export function largeWorld(size, islands = 0) {
  const made = world();
  const [sample] = made.nodes;
  const random = chance();
  const elites = Array.from({ length: Math.max(1, islands) }, () => [0]);
  const generationSize = islands > 0 ? islands : GENERATION;
  let fastest = 0;
  const nodes = [];
  for (let ordinal = 0; ordinal < size; ordinal += 1) {
    const generation = Math.ceil(ordinal / generationSize);
    const island = islands === 0 || ordinal === 0 ? null : random(islands);
    const elite = elites[island ?? 0];
    if (islands > 0 && ordinal > 0 && ordinal % RESET.every === 0) {
      const order = elites.toSorted((one, other) => (nodes[one[0]]?.speedup ?? 0) - (nodes[other[0]]?.speedup ?? 0));
      for (const worse of order.slice(0, RESET.islands)) worse.splice(0, worse.length, order.at(-1)[0]);
    }
    const verdict = ordinal === 0 ? "accepted" : VERDICTS[random(VERDICTS.length)];
    const parents = ordinal === 0 ? [] : [elite[random(elite.length)]];
    const crossed = ordinal > 1 && random(4) === 0;
    if (crossed) parents.push(elite[random(elite.length)]);
    const before = nodes[parents[0]]?.speedup ?? 1;
    const speedup = verdict === "accepted" ? (ordinal === 0 ? 1 : before * (0.9 + random(1_000) / 8_000)) : null;
    nodes.push({
      ...sample,
      id: candidateId(ordinal),
      ordinal,
      generation,
      island,
      parents: parents.map(candidateId),
      operator: { operator: ordinal === 0 ? "baseline" : islands > 0 ? "improve" : crossed ? "crossover" : "mutation" },
      proposer: ordinal === 0 ? "playbook" : ["fast", "large"][random(2)],
      title: ordinal === 0 ? "baseline" : `variant ${ordinal}`,
      verdict,
      summary: verdict,
      speedup,
      time_us: speedup === null ? null : 41.6 / speedup,
      modelled: speedup !== null,
      best: false,
      unmet_gates: [],
      created_at: new Date(Date.parse(sample.created_at) + ordinal * 1_000).toISOString(),
      judged_at: new Date(Date.parse(sample.created_at) + ordinal * 1_000 + 20_000).toISOString(),
    });
    if (speedup !== null && speedup > nodes[fastest].speedup) fastest = ordinal;
    if (speedup !== null && ordinal % GENERATION < 40) {
      elite.push(ordinal);
      elite.sort((one, other) => nodes[other].speedup - nodes[one].speedup);
      elite.splice(30);
    }
  }
  nodes[fastest].best = true;
  made.nodes = nodes;
  const run = made.runs.find(({ id }) => id === made.live);
  const winner = nodes[fastest];
  run.verdicts = {};
  for (const { verdict } of nodes) run.verdicts[verdict] = (run.verdicts[verdict] ?? 0) + 1;
  Object.assign(run, { name: `run of ${size}`, trials: size - 1, pending: 0, budget: { ...run.budget, trials: size }, best: { candidate: winner.id, title: winner.title, speedup: winner.speedup, interval: null, time_us: winner.time_us, modelled: true } });
  made.events = made.events.slice(0, 1);
  run.last_event = 1;
  return made;
}
