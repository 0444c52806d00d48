-- Failed candidates with the cause of their verdict, apart from evaluations so that counting them
-- reads no evidence. Confirmations and duplicates have no row.
CREATE TABLE failures (
    run       BLOB    NOT NULL REFERENCES runs (id),
    verdict   TEXT    NOT NULL,
    -- Without names and numbers; empty for candidates judged before this table.
    cause     TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    candidate BLOB    NOT NULL REFERENCES candidates (id),
    operator  TEXT    NOT NULL,
    proposer  TEXT    NOT NULL,
    PRIMARY KEY (run, verdict, cause, at, candidate)
) STRICT, WITHOUT ROWID;
CREATE INDEX failures_by_cause ON failures (verdict, cause, at, candidate);

INSERT OR IGNORE INTO failures (run, verdict, cause, at, candidate, operator, proposer)
SELECT e.run, e.verdict, '', e.created_at, e.candidate, json_extract(c.operator, '$.operator'), c.proposer
FROM evaluations e JOIN candidates c ON c.id = e.candidate
WHERE e.verdict <> 'accepted' AND e.stage <> 'confirmation';

-- The candidates that are no trials are few, and the number of a trial follows from theirs.
CREATE INDEX candidates_uncharged ON candidates (run, ordinal) WHERE trial = 0;
-- A worker's throughput counts its evaluations of the last hour.
CREATE INDEX evaluations_by_worker ON evaluations (worker, created_at) WHERE worker IS NOT NULL;
