-- Whether the prompts and replies of the run's calls are kept, being removed, or removed.
ALTER TABLE runs ADD COLUMN conversations TEXT NOT NULL DEFAULT 'kept'
    CHECK (conversations IN ('kept', 'removing', 'removed'));
