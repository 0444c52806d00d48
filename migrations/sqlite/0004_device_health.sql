-- How the fleet's devices fare, in the words of the workers that use them. A device is known by its
-- worker's name and its own identity: emulated ones have the same identity everywhere.
CREATE TABLE devices (
    worker     TEXT    NOT NULL,
    uuid       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('well', 'quarantined')),
    -- Why it is set aside; empty where it is well.
    reason     TEXT    NOT NULL,
    -- Since when it is in this state.
    since      INTEGER NOT NULL,
    told_at    INTEGER NOT NULL,
    PRIMARY KEY (worker, uuid)
) STRICT;

-- Which devices were unwell after they ran a candidate, by the digest of its text and values. Rows
-- are never taken back: a device that was mended was broken nonetheless.
CREATE TABLE breaks (
    candidate  TEXT    NOT NULL,
    worker     TEXT    NOT NULL,
    device     TEXT    NOT NULL,
    told_at    INTEGER NOT NULL,
    PRIMARY KEY (candidate, worker, device)
) STRICT;
