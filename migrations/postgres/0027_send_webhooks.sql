-- See the migration of SQLite with this number.
CREATE TABLE webhook_subscriptions (
    endpoint TEXT NOT NULL,
    kind TEXT NOT NULL,
    PRIMARY KEY (endpoint, kind)
);
CREATE TABLE webhook_deliveries (
    event TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    due_at BIGINT,
    attempts BIGINT NOT NULL DEFAULT 0,
    delivered_at BIGINT,
    last_error TEXT,
    PRIMARY KEY (event, endpoint)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhook_deliveries_open ON webhook_deliveries (created_at) WHERE delivered_at IS NULL;
