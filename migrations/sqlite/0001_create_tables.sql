-- Ids are the 16 bytes of a UUID version 7, so that they sort by creation. Times are microseconds
-- since 1970 UTC. Digests are 64 hexadecimal digits. JSON is text that only the domain's types read.

-- One row per content of a task folder; editing prose makes a row, not a version.
CREATE TABLE tasks (
    content    TEXT    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    version    TEXT    NOT NULL,
    view       TEXT    NOT NULL,
    bundle     TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX tasks_by_name ON tasks (name, created_at);

CREATE TABLE runs (
    id               BLOB    NOT NULL PRIMARY KEY,
    name             TEXT    NOT NULL,
    task_content     TEXT    NOT NULL REFERENCES tasks (content),
    request          TEXT    NOT NULL,
    promotion_target TEXT    NOT NULL,
    idempotency_key  TEXT    UNIQUE,
    -- Root of every input of the run's evaluations; never leaves the service but derived.
    secret           TEXT    NOT NULL,
    state            TEXT    NOT NULL DEFAULT 'created' CHECK (state IN
        ('created', 'checking_baseline', 'running', 'paused', 'completed', 'failed', 'cancelled')),
    state_detail     TEXT    NOT NULL DEFAULT '',
    finish_requested INTEGER NOT NULL DEFAULT 0 CHECK (finish_requested IN (0, 1)),
    -- Time spent running, up to running_since; both move on while the run is neither paused nor over.
    elapsed          INTEGER NOT NULL DEFAULT 0,
    running_since    INTEGER,
    -- The device whose workers take the run's jobs: as requested, else that of the baseline.
    device           TEXT,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_by_state ON runs (state);

CREATE TABLE candidates (
    id            BLOB    NOT NULL PRIMARY KEY,
    run           BLOB    NOT NULL REFERENCES runs (id),
    ordinal       INTEGER NOT NULL CHECK (ordinal >= 0),
    generation    INTEGER NOT NULL CHECK (generation >= 0),
    parent        BLOB    REFERENCES candidates (id),
    operator      TEXT    NOT NULL,
    proposer      TEXT    NOT NULL,
    title         TEXT    NOT NULL,
    file          TEXT    NOT NULL,
    source        TEXT    NOT NULL,
    -- Absent when the text does not parse.
    digest        TEXT,
    configuration TEXT    NOT NULL,
    idea          TEXT,
    trial         INTEGER NOT NULL CHECK (trial IN (0, 1)),
    -- What makes asking for the same candidate twice one candidate; absent for submissions.
    proposal      TEXT,
    state         TEXT    NOT NULL CHECK (state IN ('pending', 'evaluated', 'duplicate', 'abandoned')),
    state_detail  TEXT    NOT NULL DEFAULT '',
    duplicate_of  BLOB    REFERENCES candidates (id),
    created_at    INTEGER NOT NULL,
    UNIQUE (run, ordinal),
    UNIQUE (run, proposal),
    CHECK ((state = 'duplicate') = (duplicate_of IS NOT NULL))
) STRICT;
CREATE INDEX candidates_by_digest ON candidates (run, digest);
CREATE INDEX candidates_by_parent ON candidates (parent);

CREATE TABLE workers (
    id            BLOB    NOT NULL PRIMARY KEY,
    name          TEXT    NOT NULL,
    device_name   TEXT    NOT NULL,
    device_uuid   TEXT    NOT NULL,
    device        TEXT    NOT NULL,
    toolchain     TEXT    NOT NULL,
    evaluator     INTEGER NOT NULL,
    registered_at INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX workers_by_seen ON workers (seen_at);

CREATE TABLE jobs (
    id         BLOB    NOT NULL PRIMARY KEY,
    run        BLOB    NOT NULL REFERENCES runs (id),
    candidate  BLOB    NOT NULL REFERENCES candidates (id),
    stage      TEXT    NOT NULL CHECK (stage IN ('baseline', 'search', 'confirmation')),
    -- Counts the confirmations of one candidate from 0; part of their seeds.
    round      INTEGER NOT NULL DEFAULT 0,
    state      TEXT    NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'leased', 'done', 'parked')),
    worker     BLOB    REFERENCES workers (id),
    -- Counts leases; a report counts only with the number of the latest.
    attempt    INTEGER NOT NULL DEFAULT 0,
    deadline   INTEGER,
    progress   TEXT    NOT NULL DEFAULT '',
    faults     INTEGER NOT NULL DEFAULT 0,
    losses     INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL,
    last_error TEXT    NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    UNIQUE (candidate, stage, round),
    CHECK ((state = 'leased') = (deadline IS NOT NULL))
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state, not_before);
CREATE INDEX jobs_by_run ON jobs (run, state);
CREATE INDEX jobs_by_worker ON jobs (worker, state);

-- Append-only. The columns after `evidence` repeat what lists need of it.
CREATE TABLE evaluations (
    id           BLOB    NOT NULL PRIMARY KEY,
    run          BLOB    NOT NULL REFERENCES runs (id),
    candidate    BLOB    NOT NULL REFERENCES candidates (id),
    -- Absent when the text did not parse: nothing was sent to a worker.
    job          BLOB    UNIQUE REFERENCES jobs (id),
    stage        TEXT    NOT NULL CHECK (stage IN ('baseline', 'search', 'confirmation')),
    worker       BLOB    REFERENCES workers (id),
    attempt      INTEGER NOT NULL,
    evidence     TEXT    NOT NULL,
    verdict      TEXT    NOT NULL,
    summary      TEXT    NOT NULL,
    line         INTEGER,
    speedup      REAL,
    time_us      REAL,
    modelled     INTEGER NOT NULL DEFAULT 0 CHECK (modelled IN (0, 1)),
    promotable   INTEGER NOT NULL DEFAULT 0 CHECK (promotable IN (0, 1)),
    unmet_gates  TEXT    NOT NULL DEFAULT '[]',
    unmet_phases TEXT    NOT NULL DEFAULT '[]',
    created_at   INTEGER NOT NULL,
    CHECK ((verdict = 'accepted') = (time_us IS NOT NULL))
) STRICT;
CREATE INDEX evaluations_by_candidate ON evaluations (candidate, stage);
CREATE INDEX evaluations_by_run ON evaluations (run, stage);

-- What was hoped for, with what was found.
CREATE TABLE insights (
    id         BLOB    NOT NULL PRIMARY KEY,
    run        BLOB    NOT NULL REFERENCES runs (id),
    candidate  BLOB    NOT NULL UNIQUE REFERENCES candidates (id),
    idea       TEXT    NOT NULL,
    outcome    TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX insights_by_run ON insights (run, created_at);

CREATE TABLE promotions (
    id           BLOB    NOT NULL PRIMARY KEY,
    run          BLOB    NOT NULL REFERENCES runs (id),
    candidate    BLOB    NOT NULL REFERENCES candidates (id),
    repository   TEXT    NOT NULL,
    branch       TEXT    NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('confirming', 'committed', 'reverted', 'refused', 'blocked')),
    state_detail TEXT    NOT NULL DEFAULT '',
    -- The commit of the winner, and the one that takes it back.
    commit_id    TEXT,
    revert_id    TEXT,
    -- As confirmed for the commit.
    speedup      REAL,
    -- The confirmation or re-check whose outcome is waited for.
    job          BLOB    REFERENCES jobs (id),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (run, candidate)
) STRICT;
CREATE INDEX promotions_by_state ON promotions (state);

-- The truth that the event streams resume from.
CREATE TABLE events (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    run  BLOB    NOT NULL REFERENCES runs (id),
    at   INTEGER NOT NULL,
    what TEXT    NOT NULL
) STRICT;
CREATE INDEX events_by_run ON events (run, id);
