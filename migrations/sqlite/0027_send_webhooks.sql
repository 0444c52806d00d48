-- The kinds of events that each endpoint of the webhooks file gets. Replaced at each start of a service.
CREATE TABLE webhook_subscriptions (
    endpoint TEXT NOT NULL,
    kind     TEXT NOT NULL,
    PRIMARY KEY (endpoint, kind)
) STRICT, WITHOUT ROWID;

-- Events to send, written in the transaction of the change that each tells of.
CREATE TABLE webhook_deliveries (
    -- Made from what happened, so that an event is recorded once.
    event        TEXT    NOT NULL,
    endpoint     TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    -- The body to send; empty once it was delivered.
    body         TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    -- The time of the next attempt; absent once it was delivered or given up.
    due_at       INTEGER,
    attempts     INTEGER NOT NULL DEFAULT 0,
    delivered_at INTEGER,
    last_error   TEXT,
    PRIMARY KEY (event, endpoint)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhook_deliveries_open ON webhook_deliveries (created_at) WHERE delivered_at IS NULL;
