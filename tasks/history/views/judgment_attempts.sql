CREATE VIEW judgment_attempts AS
SELECT j.* REPLACE (s.evaluation_id AS run_id) FROM judgments j JOIN shard_runs s USING (run_id);
COMMENT ON VIEW judgment_attempts IS 'Calls of finished runs, every attempt. last_attempt marks those that count.';
-- run_id: Evaluation (evaluations.run_id).
