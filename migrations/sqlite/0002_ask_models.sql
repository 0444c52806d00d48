-- Candidates that models write. One is pending from the moment it is planned; the call that waits
-- for an answer says that no worker has it yet.

-- The parents after the primary one, a JSON list of ids in the order they were shown.
ALTER TABLE candidates ADD COLUMN further_parents TEXT NOT NULL DEFAULT '[]';
-- Calls of models that failed since the last answer; too many of them pause the run.
ALTER TABLE runs ADD COLUMN unanswered INTEGER NOT NULL DEFAULT 0;
-- Microseconds that the device was occupied.
ALTER TABLE evaluations ADD COLUMN device_us INTEGER NOT NULL DEFAULT 0;

-- One row per turn of a conversation, written before anything is sent: the text of the prompt is
-- what was planned, whatever is known later.
CREATE TABLE calls (
    id               BLOB    NOT NULL PRIMARY KEY,
    run              BLOB    NOT NULL REFERENCES runs (id),
    candidate        BLOB    NOT NULL REFERENCES candidates (id),
    turn             INTEGER NOT NULL CHECK (turn >= 0),
    model            TEXT    NOT NULL,
    seed             INTEGER NOT NULL,
    temperature      REAL    NOT NULL,
    template         TEXT    NOT NULL,
    template_digest  TEXT    NOT NULL,
    prompt           TEXT    NOT NULL,
    dropped          TEXT    NOT NULL,
    seen             TEXT    NOT NULL,
    -- What the answer may use at most: counted against the budget until it is there.
    reserved_tokens  INTEGER NOT NULL,
    reserved_nanos   INTEGER NOT NULL,
    failures         INTEGER NOT NULL DEFAULT 0,
    not_before       INTEGER NOT NULL,
    last_error       TEXT,
    created_at       INTEGER NOT NULL,
    -- From here on the answer; all of it or none.
    answered_at      INTEGER,
    reply            TEXT,
    complete         INTEGER CHECK (complete IN (0, 1)),
    unusable         TEXT,
    notes            TEXT,
    input_tokens     INTEGER,
    cached_tokens    INTEGER,
    cache_written_tokens INTEGER,
    output_tokens    INTEGER,
    usage_estimated  INTEGER CHECK (usage_estimated IN (0, 1)),
    -- Nano-dollars; absent where the model has no price.
    cost             INTEGER,
    answered_by      TEXT,
    request_id       TEXT,
    first_token_us   INTEGER,
    total_us         INTEGER,
    attempts         INTEGER,
    UNIQUE (candidate, turn),
    CHECK ((answered_at IS NULL) = (reply IS NULL))
) STRICT;
CREATE INDEX calls_by_run ON calls (run);
CREATE INDEX calls_open ON calls (not_before) WHERE answered_at IS NULL;
