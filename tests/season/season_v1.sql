BEGIN TRANSACTION;
CREATE TABLE actions (
            at DOUBLE PRECISION NOT NULL, who TEXT NOT NULL, action TEXT NOT NULL,
            about TEXT NOT NULL);
CREATE TABLE attempts (
            submission INTEGER NOT NULL, number INTEGER NOT NULL, attempt INTEGER NOT NULL,
            worker TEXT NOT NULL, began DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION,
            outcome TEXT NOT NULL, detail TEXT NOT NULL, log_sha256 TEXT NOT NULL,
            PRIMARY KEY (submission, number, attempt));
INSERT INTO "attempts" VALUES(1,0,1,'w1',0.0,1.0,'passed','','');
INSERT INTO "attempts" VALUES(1,1,1,'w1',0.0,2.0,'finished','','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa');
CREATE TABLE season_version (version INTEGER NOT NULL);
INSERT INTO "season_version" VALUES(1);
CREATE TABLE submissions (
            id INTEGER PRIMARY KEY, team TEXT NOT NULL, track TEXT NOT NULL, phase TEXT NOT NULL,
            name TEXT NOT NULL, bytes BIGINT NOT NULL, sha256 TEXT NOT NULL,
            received DOUBLE PRECISION NOT NULL, stage TEXT NOT NULL, fault TEXT NOT NULL,
            reason TEXT NOT NULL, report TEXT NOT NULL, score DOUBLE PRECISION,
            row_json TEXT NOT NULL, sessions_json TEXT NOT NULL, ended DOUBLE PRECISION,
            chosen INTEGER NOT NULL);
INSERT INTO "submissions" VALUES(1,'alice','erp','open','team.zip',10,'0000000000000000000000000000000000000000000000000000000000000000',0.0,'judged','','','ok',12.5,'{"team": "alice"}','[{"score": 12.5}]',2.0,0);
INSERT INTO "submissions" VALUES(2,'bob','erp','open','team.zip',10,'0000000000000000000000000000000000000000000000000000000000000000',0.0,'received','','','',NULL,'{}','[]',NULL,0);
CREATE TABLE team_turns (team TEXT PRIMARY KEY, turn BIGINT NOT NULL);
INSERT INTO "team_turns" VALUES('alice',2);
CREATE TABLE units (
            submission INTEGER NOT NULL REFERENCES submissions (id), number INTEGER NOT NULL,
            team TEXT NOT NULL, state TEXT NOT NULL, attempt INTEGER NOT NULL,
            failures INTEGER NOT NULL, not_before DOUBLE PRECISION NOT NULL,
            lease_until DOUBLE PRECISION NOT NULL, worker TEXT NOT NULL,
            log TEXT NOT NULL, log_sha256 TEXT NOT NULL,
            PRIMARY KEY (submission, number));
INSERT INTO "units" VALUES(1,0,'alice','done',1,0,0.0,60.0,'w1','','');
INSERT INTO "units" VALUES(1,1,'alice','done',1,0,0.0,60.0,'w1','runs/a.jsonl','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa');
INSERT INTO "units" VALUES(2,0,'bob','waiting',0,0,0.0,0.0,'','','');
CREATE INDEX submissions_of_team ON submissions (team, phase, track);
CREATE INDEX units_by_state ON units (state, team, submission, number);
COMMIT;
