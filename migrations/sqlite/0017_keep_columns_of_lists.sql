-- What lists, the lineage and the counts of a long run read, kept beside the candidate: a join with
-- evaluations, or a count of rows, takes time that grows with the run.

-- Position and generation of the primary parent.
ALTER TABLE candidates ADD COLUMN parent_ordinal INTEGER;
ALTER TABLE candidates ADD COLUMN parent_generation INTEGER;
-- The verdict, that of the original for a duplicate; absent until there is one.
ALTER TABLE candidates ADD COLUMN verdict TEXT;
ALTER TABLE candidates ADD COLUMN speedup REAL;
ALTER TABLE candidates ADD COLUMN judged_at INTEGER;
UPDATE candidates SET parent_ordinal = p.ordinal, parent_generation = p.generation
    FROM candidates p WHERE p.id = candidates.parent;
UPDATE candidates SET verdict = e.verdict, speedup = e.speedup,
    judged_at = CASE WHEN candidates.duplicate_of IS NULL THEN e.created_at
        ELSE MAX(e.created_at, candidates.created_at) END
    FROM evaluations e
    WHERE e.candidate = COALESCE(candidates.duplicate_of, candidates.id)
    AND e.stage <> 'confirmation';

CREATE INDEX candidates_by_verdict ON candidates (run, verdict, ordinal);
CREATE INDEX candidates_by_speedup ON candidates (run, speedup DESC, ordinal)
    WHERE speedup IS NOT NULL;
-- These two hold every column of the totals by generation and of the curve.
CREATE INDEX candidates_by_generation
    ON candidates (run, generation, ordinal, parent_generation, verdict, speedup);
CREATE INDEX candidates_by_ordinal ON candidates (run, ordinal, verdict, speedup, judged_at);

-- Candidates charged as trials.
ALTER TABLE runs ADD COLUMN trials INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET trials =
    (SELECT COUNT(*) FROM candidates c WHERE c.run = runs.id AND c.trial = 1);
DROP INDEX candidates_charged;

-- Candidates of each verdict.
CREATE TABLE verdict_counts (
    run        BLOB    NOT NULL REFERENCES runs (id),
    verdict    TEXT    NOT NULL,
    candidates INTEGER NOT NULL,
    PRIMARY KEY (run, verdict)
) STRICT, WITHOUT ROWID;
INSERT INTO verdict_counts
    SELECT run, verdict, COUNT(*) FROM candidates WHERE verdict IS NOT NULL GROUP BY run, verdict;
DROP INDEX candidates_duplicate;
