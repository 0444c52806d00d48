-- The search for a run's first candidate with a code orders by ordinal. Without the ordinal in this
-- index SQLite read all candidates of the run in order, for each reply that repeats none.
DROP INDEX candidates_by_digest;
CREATE INDEX candidates_by_digest ON candidates (run, digest, ordinal) WHERE digest IS NOT NULL;
