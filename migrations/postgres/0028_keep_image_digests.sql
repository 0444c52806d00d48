-- Digest of the code that an evaluation executed, by which the sweep of an elite finds tunables without
-- effect. Absent where nothing was compiled, and for evaluations of earlier versions.
ALTER TABLE evaluations ADD COLUMN image TEXT;
