-- Totals over a run's answered calls and evaluations, kept with the run: adding them up again for
-- each step takes time that grows with the run. Calls without an answer are few and still added up.
ALTER TABLE runs ADD COLUMN answered_calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN cache_written_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0;
-- Nano-dollars of the calls whose model has a price.
ALTER TABLE runs ADD COLUMN cost INTEGER NOT NULL DEFAULT 0;
-- Answered calls whose model has no price.
ALTER TABLE runs ADD COLUMN unpriced_calls INTEGER NOT NULL DEFAULT 0;
-- Interrupted requests of answered calls, and the most that they may have used.
ALTER TABLE runs ADD COLUMN interrupted_requests INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN interrupted_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN interrupted_nanos INTEGER NOT NULL DEFAULT 0;
-- Microseconds that devices were occupied.
ALTER TABLE runs ADD COLUMN device_us INTEGER NOT NULL DEFAULT 0;

UPDATE runs SET answered_calls = k.calls, input_tokens = k.input, cached_tokens = k.cached,
    cache_written_tokens = k.cache_written, output_tokens = k.output, cost = k.cost,
    unpriced_calls = k.unpriced, interrupted_requests = k.requests,
    interrupted_tokens = k.tokens, interrupted_nanos = k.nanos
FROM (SELECT run, COUNT(*) AS calls, SUM(input_tokens) AS input, SUM(cached_tokens) AS cached,
    SUM(cache_written_tokens) AS cache_written, SUM(output_tokens) AS output,
    COALESCE(SUM(cost), 0) AS cost, COUNT(*) - COUNT(cost) AS unpriced,
    SUM(MAX(0, requests - failures - 1)) AS requests,
    SUM(MAX(0, requests - failures - 1) * reserved_tokens) AS tokens,
    SUM(MAX(0, requests - failures - 1) * reserved_nanos) AS nanos
    FROM calls WHERE answered_at IS NOT NULL GROUP BY run) AS k
WHERE runs.id = k.run;
UPDATE runs SET device_us = e.total
FROM (SELECT run, SUM(device_us) AS total FROM evaluations GROUP BY run) AS e WHERE runs.id = e.run;

-- Indexes without which a lease, a report or a step reads every row of a long run. A row holds texts
-- of several pages, and reading a column behind them walks through all of these.
CREATE INDEX calls_open_by_run ON calls (run) WHERE answered_at IS NULL;
CREATE INDEX candidates_by_original ON candidates (duplicate_of) WHERE duplicate_of IS NOT NULL;
CREATE INDEX candidates_charged ON candidates (run) WHERE trial = 1;
CREATE INDEX evaluations_by_speedup ON evaluations (run, speedup, candidate)
    WHERE speedup IS NOT NULL AND stage <> 'confirmation';
