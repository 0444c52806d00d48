-- Access tokens. Only the SHA-256 of a secret is stored; it has 256 random bits, so that no slower
-- hash is needed.
CREATE TABLE tokens (
    id           BLOB    NOT NULL PRIMARY KEY,
    name         TEXT    NOT NULL,
    scope        TEXT    NOT NULL CHECK (scope IN ('viewer', 'user', 'admin', 'worker')),
    digest       TEXT    NOT NULL UNIQUE,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    -- Written at most once a minute.
    last_used_at INTEGER,
    revoked_at   INTEGER
) STRICT;

-- Signed-in browsers. A session ends with its token, or earlier.
CREATE TABLE sessions (
    digest     TEXT    NOT NULL PRIMARY KEY,
    token      BLOB    NOT NULL REFERENCES tokens (id),
    expires_at INTEGER NOT NULL
) STRICT;

-- Changes that people asked for: who, what, when. A row is written before the change is made; its
-- status is that of the answer.
CREATE TABLE changes (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    token   BLOB    REFERENCES tokens (id),
    actor   TEXT    NOT NULL,
    request TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    status  INTEGER
) STRICT;

-- The token that registered the worker, or 'local' for the service's own worker; absent where no token
-- was asked for. Nobody else may take leases or report as this worker.
ALTER TABLE workers ADD COLUMN owner TEXT;
-- Set when the worker is to take no further lease and to leave.
ALTER TABLE workers ADD COLUMN draining INTEGER NOT NULL DEFAULT 0 CHECK (draining IN (0, 1));

-- The digest of an evaluation's evidence bundle, which only the owner of its worker may send.
ALTER TABLE evaluations ADD COLUMN bundle TEXT;
UPDATE evaluations SET bundle = json_extract(evidence, '$.evidence');
CREATE INDEX evaluations_by_bundle ON evaluations (bundle) WHERE bundle IS NOT NULL;
