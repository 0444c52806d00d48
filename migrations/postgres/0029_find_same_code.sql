-- Digest of a candidate's text without comments and layout, with its plan and tunables; absent where the
-- text does not parse, and for candidates of earlier versions.
ALTER TABLE candidates ADD COLUMN text_digest TEXT;
-- Digest of its launches and workspaces alone.
ALTER TABLE candidates ADD COLUMN launches TEXT;
-- Digest of its compiled code and its launches, once it was compiled.
ALTER TABLE candidates ADD COLUMN executed TEXT;
-- The run's first candidate that executes the same; absent for that one.
ALTER TABLE candidates ADD COLUMN repeats UUID REFERENCES candidates (id);
CREATE INDEX candidates_by_text ON candidates (text_digest, run, ordinal) WHERE text_digest IS NOT NULL;
CREATE INDEX candidates_by_executed ON candidates (run, executed, ordinal) WHERE executed IS NOT NULL;

-- Digest of what a verdict depends on besides the candidate's code and its inputs; absent where no worker
-- evaluated it.
ALTER TABLE evaluations ADD COLUMN conditions TEXT;
-- The candidate of another run whose evaluation this is.
ALTER TABLE evaluations ADD COLUMN reused_from UUID REFERENCES candidates (id);
-- The floor over the time found, geometric mean over the score cases, where floors are known.
ALTER TABLE evaluations ADD COLUMN floor_share DOUBLE PRECISION;
-- Cost of the answers for a candidate, billionths of a dollar, as far as prices are known.
ALTER TABLE candidates ADD COLUMN cost BIGINT NOT NULL DEFAULT 0;
