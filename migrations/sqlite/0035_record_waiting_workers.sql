-- The service at which the worker waits for a job; absent while it does not wait. While that service lives, the worker
-- counts as seen, without a write for each of its requests.
ALTER TABLE workers ADD COLUMN waiting_at BLOB;
-- Workers that wait at a living service. A SQLite database has one, which clears the column when it starts.
CREATE VIEW waiting_workers AS SELECT id FROM workers WHERE waiting_at IS NOT NULL;
