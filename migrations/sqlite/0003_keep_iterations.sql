-- Steps of an engineer's work on one file of a checkout, by the verb `evaluate`. A row is written
-- before git is touched and settled afterwards: one that is still planned belongs to a call that
-- was killed, and its commits say by their trailer whether they were made.
CREATE TABLE iterations (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The checkout and the file in it.
    checkout     TEXT    NOT NULL,
    path         TEXT    NOT NULL,
    branch       TEXT    NOT NULL,
    -- The commit that the branch was at.
    base         TEXT    NOT NULL,
    -- Counts the steps of a file on a device from 1.
    number       INTEGER NOT NULL CHECK (number > 0),
    task         TEXT    NOT NULL,
    task_version TEXT    NOT NULL,
    evaluator    INTEGER NOT NULL,
    -- What the times are comparable with: the device, and the model's label where they are modelled.
    device       TEXT    NOT NULL,
    modelled     INTEGER NOT NULL CHECK (modelled IN (0, 1)),
    hypothesis   TEXT    NOT NULL,
    expected     REAL,
    speedup      REAL,
    gain         REAL,
    decision     TEXT    NOT NULL CHECK (decision IN ('keep', 'revert', 'target')),
    reason       TEXT    NOT NULL,
    evidence     TEXT    NOT NULL,
    state        TEXT    NOT NULL DEFAULT 'planned' CHECK (state IN ('planned', 'done', 'refused')),
    -- Why git did not follow.
    refusal      TEXT    NOT NULL DEFAULT '',
    commit_id    TEXT,
    revert_id    TEXT,
    created_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX iterations_by_file ON iterations (checkout, path, id);
