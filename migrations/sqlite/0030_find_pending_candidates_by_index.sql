-- Without statistics SQLite preferred candidates_by_verdict for the pending candidates of a run, and read all of them:
-- 100 ms for 100,000. With two columns to compare it takes this index.
DROP INDEX candidates_pending;
CREATE INDEX candidates_pending ON candidates (run, state) WHERE state = 'pending';
