-- The oldest job of a run is found without reading all that wait.
CREATE INDEX jobs_queued ON jobs (run, created_at) WHERE state = 'queued';
