-- Whether the prompts and replies of the run's calls are kept, being removed, or removed.
ALTER TABLE runs ADD COLUMN conversations TEXT NOT NULL DEFAULT 'kept'
    CHECK (conversations IN ('kept', 'removing', 'removed'));
-- The time at which the run ended. `updated_at` is later where its champion was evaluated again.
ALTER TABLE runs ADD COLUMN ended_at BIGINT;
UPDATE runs SET ended_at = updated_at WHERE state IN ('completed', 'failed', 'cancelled');
