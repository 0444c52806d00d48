-- The most specialised hardware feature that a candidate's code names; absent before it is written, and for
-- candidates of earlier versions.
ALTER TABLE candidates ADD COLUMN technique TEXT;
-- The kind of resource that bounds the time of an accepted candidate; absent where times are measured.
ALTER TABLE evaluations ADD COLUMN bound TEXT;
