-- Why a completed run promoted nothing; absent while it goes on, and where it promoted its champion.
ALTER TABLE runs ADD COLUMN unpromoted TEXT;
