-- Identity of a worker's installation, the same after a restart; absent for older workers.
ALTER TABLE workers ADD COLUMN instance TEXT;
-- Faults that the worker reported since its last verdict.
ALTER TABLE workers ADD COLUMN faults_in_a_row INTEGER NOT NULL DEFAULT 0;
-- Until when the worker gets no job, because of these faults.
ALTER TABLE workers ADD COLUMN suspended_until INTEGER;

-- Which workers reported a fault for which job: it is lent to another one, if there is one.
CREATE TABLE job_faults (
    job    BLOB NOT NULL REFERENCES jobs (id),
    worker BLOB NOT NULL REFERENCES workers (id),
    PRIMARY KEY (job, worker)
) STRICT;
