-- What came of the control that followed an evaluation's comparison, the incumbent compared with
-- itself; absent where none did. It repeats what the evidence says, for who counts.
ALTER TABLE evaluations ADD COLUMN control TEXT CHECK (control IN
    ('unfinished', 'level', 'caught', 'undecided', 'promoted'));
CREATE INDEX evaluations_by_control ON evaluations (worker, control) WHERE control IS NOT NULL;
