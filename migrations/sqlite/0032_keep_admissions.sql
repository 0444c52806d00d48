-- The newest admission of each upload of a task on each kind of device: every rule with its number.
CREATE TABLE admissions (
    task_content TEXT    NOT NULL REFERENCES tasks (content),
    device       TEXT    NOT NULL,
    toolchain    TEXT    NOT NULL,
    decided_at   INTEGER NOT NULL,
    report       TEXT    NOT NULL,
    PRIMARY KEY (task_content, device)
) STRICT, WITHOUT ROWID;
