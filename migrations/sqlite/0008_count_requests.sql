-- How many requests were begun for a call. One more than the failures and the answer together means
-- that a request was interrupted: the service stopped before its outcome was known.
ALTER TABLE calls ADD COLUMN requests INTEGER NOT NULL DEFAULT 0;
-- Calls of earlier versions count as begun as often as their outcomes say.
UPDATE calls SET requests = failures + (answered_at IS NOT NULL);
