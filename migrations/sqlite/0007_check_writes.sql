-- One row that health checks change, because only a write shows that writing is possible. It counts,
-- because SQLite does not write a row whose values stay the same.
CREATE TABLE write_checks (
    id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    checks INTEGER NOT NULL
) STRICT;
INSERT INTO write_checks (id, checks) VALUES (1, 0);
