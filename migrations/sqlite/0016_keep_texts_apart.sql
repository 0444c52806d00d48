-- Large texts in a table of their own, because a query that reads one column of a row reads the pages
-- of all columns before it. The service compresses new texts. Those of earlier versions stay as they
-- are: content that does not begin with the magic number of zstd is the text itself.
CREATE TABLE texts (
    id      INTEGER PRIMARY KEY,
    -- The texts that this one was compressed with as its dictionary, a JSON list of ids in order.
    bases   TEXT    NOT NULL DEFAULT '[]',
    content BLOB    NOT NULL
) STRICT;

-- The first prompt of a run from each template, the dictionary of the further ones.
CREATE TABLE first_prompts (
    run      BLOB    NOT NULL REFERENCES runs (id),
    template TEXT    NOT NULL,
    prompt   INTEGER NOT NULL REFERENCES texts (id),
    PRIMARY KEY (run, template)
) STRICT, WITHOUT ROWID;

-- Four texts at most come from one row number.
INSERT INTO texts (id, content)
    SELECT 4 * rowid, CAST(source AS BLOB) FROM candidates WHERE source <> '';
INSERT INTO texts (id, content) SELECT 4 * rowid + 1, CAST(evidence AS BLOB) FROM evaluations;
INSERT INTO texts (id, content) SELECT 4 * rowid + 2, CAST(prompt AS BLOB) FROM calls;
INSERT INTO texts (id, content)
    SELECT 4 * rowid + 3, CAST(reply AS BLOB) FROM calls WHERE reply IS NOT NULL;

-- Absent until a model has written the candidate.
ALTER TABLE candidates ADD COLUMN source_text INTEGER REFERENCES texts (id);
UPDATE candidates SET source_text = 4 * rowid WHERE source <> '';
ALTER TABLE candidates DROP COLUMN source;

ALTER TABLE evaluations ADD COLUMN evidence_text INTEGER REFERENCES texts (id);
UPDATE evaluations SET evidence_text = 4 * rowid + 1;
ALTER TABLE evaluations DROP COLUMN evidence;

-- A check of the table names the reply, so that the table is written anew.
CREATE TABLE calls_anew (
    id               BLOB    NOT NULL PRIMARY KEY,
    run              BLOB    NOT NULL REFERENCES runs (id),
    candidate        BLOB    NOT NULL REFERENCES candidates (id),
    turn             INTEGER NOT NULL CHECK (turn >= 0),
    model            TEXT    NOT NULL,
    seed             INTEGER NOT NULL,
    temperature      REAL    NOT NULL,
    template         TEXT    NOT NULL,
    template_digest  TEXT    NOT NULL,
    prompt_text      INTEGER NOT NULL REFERENCES texts (id),
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
    reply_text       INTEGER REFERENCES texts (id),
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
    -- How many requests were begun. One more than the failures and the answer together means that a
    -- request was interrupted: the service stopped before its outcome was known.
    requests         INTEGER NOT NULL DEFAULT 0,
    UNIQUE (candidate, turn),
    CHECK ((answered_at IS NULL) = (reply_text IS NULL))
) STRICT;
INSERT INTO calls_anew SELECT id, run, candidate, turn, model, seed, temperature, template,
    template_digest, 4 * rowid + 2, dropped, seen, reserved_tokens, reserved_nanos, failures,
    not_before, last_error, created_at, answered_at,
    CASE WHEN reply IS NOT NULL THEN 4 * rowid + 3 END, complete, unusable, notes, input_tokens,
    cached_tokens, cache_written_tokens, output_tokens, usage_estimated, cost, answered_by,
    request_id, first_token_us, total_us, attempts, requests FROM calls;
DROP TABLE calls;
ALTER TABLE calls_anew RENAME TO calls;
CREATE INDEX calls_by_run ON calls (run);
CREATE INDEX calls_open ON calls (not_before) WHERE answered_at IS NULL;
CREATE INDEX calls_open_by_run ON calls (run) WHERE answered_at IS NULL;

-- Parents after the primary one, by parent. The list in `candidates` has them by child.
CREATE TABLE further_parents (
    parent BLOB NOT NULL REFERENCES candidates (id),
    child  BLOB NOT NULL REFERENCES candidates (id),
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO further_parents
    SELECT unhex(replace(f.value, '-', '')), c.id FROM candidates c, json_each(c.further_parents) f;

-- Indexes that answer what a page of a long run counts without reading its rows.
DROP INDEX evaluations_by_run;
CREATE INDEX evaluations_by_run ON evaluations (run, stage, verdict);
CREATE INDEX candidates_duplicate ON candidates (run, duplicate_of) WHERE duplicate_of IS NOT NULL;
CREATE INDEX candidates_pending ON candidates (run) WHERE state = 'pending';
