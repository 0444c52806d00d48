-- A champion that is asked again is asked for more than a confirmation: a confirmation that says so.
ALTER TABLE jobs ADD COLUMN champion INTEGER NOT NULL DEFAULT 0 CHECK (champion IN (0, 1));
-- The device that the commit's speedup was found on; absent in rows of older programs.
ALTER TABLE promotions ADD COLUMN device_uuid TEXT;
