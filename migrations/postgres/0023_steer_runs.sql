-- See the migration of SQLite with this number.
CREATE TABLE steering (
    run UUID NOT NULL REFERENCES runs (id),
    entry BIGINT NOT NULL CHECK (entry > 0),
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    since BIGINT NOT NULL CHECK (since >= 0),
    what TEXT NOT NULL,
    withdrawn_by BIGINT,
    PRIMARY KEY (run, entry)
);
CREATE TABLE bans (
    run UUID NOT NULL REFERENCES runs (id),
    candidate UUID NOT NULL REFERENCES candidates (id),
    entry BIGINT NOT NULL,
    PRIMARY KEY (run, candidate, entry)
);
ALTER TABLE runs ADD COLUMN first_request TEXT;
ALTER TABLE runs ADD COLUMN forked_from UUID REFERENCES candidates (id);
