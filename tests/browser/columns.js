// The service's answer about a large run in columns, made from the candidates of the world.

const RUN_BEGIN_S = 60;

/** A slice of the lineage in columns. */
export function columns(nodes, query) {
  const number = (name, other) => Number(query.get(name) ?? other);
  const [from, to] = [number("from_generation", 0), number("to_generation", Number.POSITIVE_INFINITY)];
  const [after, limit] = [number("cursor", -1), Math.min(2_400, number("limit", 2_400))];
  const matching = nodes.filter((node) => node.ordinal > after && node.generation >= from && node.generation <= to);
  const slice = matching.slice(0, limit);
  const ordinalOf = (id) => Number(id.slice(-12));
  const outcome = (node) => node.verdict ?? (node.state.state === "abandoned" ? "abandoned" : "pending");
  const operators = [...new Set(slice.map((node) => node.operator.operator))];
  const outcomes = [...new Set(slice.map(outcome))];
  return {
    total: nodes.length,
    last_generation: nodes.at(-1)?.generation ?? 0,
    best: nodes.find((node) => node.best)?.ordinal ?? null,
    ordinals: slice.map((node) => node.ordinal),
    generations: slice.map((node) => node.generation),
    islands: slice.some(({ island }) => island !== null) ? slice.map(({ island }) => island) : [],
    parents: slice.map((node) => (node.parents.length > 0 ? ordinalOf(node.parents[0]) : null)),
    further_parents: slice.flatMap((node) => node.parents.slice(1).map((id) => [node.ordinal, ordinalOf(id)])),
    operator_names: operators,
    operators: slice.map((node) => operators.indexOf(node.operator.operator)),
    outcome_names: outcomes,
    outcomes: slice.map((node) => outcomes.indexOf(outcome(node))),
    duplicates: slice.filter((node) => node.state.state === "duplicate").map((node) => node.ordinal),
    speedups: slice.map((node) => (node.speedup === null ? null : Math.round(1e4 * node.speedup) / 1e4)),
    seconds: slice.map((node) => RUN_BEGIN_S + node.ordinal),
    next: matching.length > limit ? String(slice.at(-1).ordinal) : null,
  };
}

/** The totals of the lineage by generation, in at most 400 buckets. */
export function generations(nodes) {
  const last = nodes.at(-1)?.generation ?? 0;
  const width = Math.ceil((last + 1) / 400);
  const byBucket = new Map();
  for (const node of nodes) {
    const bucket = Math.floor(node.generation / width);
    const members = byBucket.get(bucket);
    if (members) members.push(node);
    else byBucket.set(bucket, [node]);
  }
  const buckets = [...byBucket.entries()].sort(([one], [other]) => one - other);
  const each = (value) => buckets.map(([, members]) => value(members));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const path = [];
  for (let node = nodes.find(({ best }) => best); node; node = byId.get(node.parents[0])) path.push(node.ordinal);
  return {
    total: nodes.length,
    last_generation: last,
    width,
    generations: buckets.map(([bucket]) => bucket * width),
    first: each((members) => members[0].ordinal),
    last: each((members) => members.at(-1).ordinal),
    candidates: each((members) => members.length),
    unjudged: each((members) => members.filter(({ verdict }) => verdict === null).length),
    accepted: each((members) => members.filter(({ verdict }) => verdict === "accepted").length),
    fastest: each((members) => members.reduce((most, { speedup }) => (speedup === null ? most : Math.max(most ?? 0, speedup)), null)),
    links: [],
    path,
  };
}

/** The fastest candidates over the run. */
export function curve(nodes, most) {
  const width = Math.max(1, Math.ceil(nodes.length / most));
  const buckets = [];
  for (let first = 0; first < nodes.length; first += width) buckets.push(nodes.slice(first, first + width));
  const fastest = buckets.map((members) => members.reduce((most, node) => (node.speedup !== null && node.speedup > (most?.speedup ?? 0) ? node : most), null));
  let best = null;
  return {
    total: nodes.length,
    width,
    ordinals: buckets.map(([first]) => first.ordinal),
    accepted: buckets.map((members) => members.filter(({ verdict }) => verdict === "accepted").length),
    fastest: fastest.map((node) => node?.speedup ?? null),
    fastest_ordinals: fastest.map((node) => node?.ordinal ?? null),
    fastest_seconds: fastest.map((node) => (node ? RUN_BEGIN_S + node.ordinal : null)),
    best: fastest.map((node) => (best = Math.max(best ?? 0, node?.speedup ?? 0) || null)),
  };
}
