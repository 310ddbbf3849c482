CREATE VIEW judgment_attempts AS
SELECT j.* REPLACE (s.evaluation_id AS run_id) FROM judgments j JOIN shard_runs s USING (run_id);
COMMENT ON VIEW judgment_attempts IS 'Every attempt of finished runs; last_attempt marks those that count.';
