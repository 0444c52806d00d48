-- The work that the worker's machine cannot do, JSON.
ALTER TABLE workers ADD COLUMN declined TEXT NOT NULL DEFAULT '[]';
-- 1 if the worker was lost while it had the job; 0 if it reported a fault, or that its machine lacks what the task needs.
ALTER TABLE job_faults ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
