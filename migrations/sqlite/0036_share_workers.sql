-- The person or program that launched the run, as the list of changes names it; empty where it was not recorded.
ALTER TABLE runs ADD COLUMN launched_by TEXT NOT NULL DEFAULT '';
-- The time at which a job of the run was last lent.
ALTER TABLE runs ADD COLUMN lent_at INTEGER;
