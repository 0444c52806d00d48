-- The price of an hour of the worker's machine in billionths of a dollar; absent where it told none.
ALTER TABLE workers ADD COLUMN hour_price INTEGER;
-- What was known of the device during the last evaluation that timed it, in JSON, and the time of the report.
ALTER TABLE workers ADD COLUMN watched TEXT;
ALTER TABLE workers ADD COLUMN watched_at INTEGER;
-- The hours of a worker's device in each month of UTC, such as 2026-11. A worker counts as attached between
-- two requests that are less than a minute apart.
CREATE TABLE device_months (
    worker      TEXT    NOT NULL,
    uuid        TEXT    NOT NULL,
    month       TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    attached_us INTEGER NOT NULL,
    busy_us     INTEGER NOT NULL,
    -- The price of the attached time, billionths of a dollar.
    cost        INTEGER NOT NULL,
    PRIMARY KEY (worker, uuid, month)
) STRICT, WITHOUT ROWID;
-- The price of the device time of a run, billionths of a dollar.
ALTER TABLE runs ADD COLUMN device_cost INTEGER NOT NULL DEFAULT 0;
