-- Directions that people gave runs, in their order. A row never changes, except that a later one may
-- withdraw it.
CREATE TABLE steering (
    run          BLOB    NOT NULL REFERENCES runs (id),
    -- Counts the run's directions from 1.
    entry        INTEGER NOT NULL CHECK (entry > 0),
    at           INTEGER NOT NULL,
    actor        TEXT    NOT NULL,
    -- Candidates that the run had: the direction holds for those that are planned after them.
    since        INTEGER NOT NULL CHECK (since >= 0),
    what         TEXT    NOT NULL,
    withdrawn_by INTEGER,
    PRIMARY KEY (run, entry)
) STRICT, WITHOUT ROWID;

-- Candidates of the bans in force, with the descendants that the ban names.
CREATE TABLE bans (
    run       BLOB    NOT NULL REFERENCES runs (id),
    candidate BLOB    NOT NULL REFERENCES candidates (id),
    entry     INTEGER NOT NULL,
    PRIMARY KEY (run, candidate, entry)
) STRICT, WITHOUT ROWID;

-- The request before its limits or models were changed; absent where they were not.
ALTER TABLE runs ADD COLUMN first_request TEXT;
-- The candidate of another run that the run starts from.
ALTER TABLE runs ADD COLUMN forked_from BLOB REFERENCES candidates (id);
