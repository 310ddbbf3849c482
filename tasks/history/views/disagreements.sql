CREATE VIEW disagreements AS
SELECT s.evaluation_id AS run_id, o.flow, r.started_at, o.candidate, o.sample_id, o.category, o.difficulty,
       [d.dimension FOR d IN o.dimensions IF d.verdict = 'Model'] AS model_dimensions,
       [d.dimension FOR d IN o.dimensions IF d.verdict = 'Human'] AS human_dimensions,
       o.overall, o.tier, o.tier_path
FROM outcomes o JOIN shard_runs s USING (run_id) JOIN evaluations r ON r.run_id = s.evaluation_id
WHERE len(model_dimensions) > 0 AND len(human_dimensions) > 0
ORDER BY r.started_at DESC, s.evaluation_id DESC, o.candidate, o.sample_id;
COMMENT ON VIEW disagreements IS 'Samples whose dimensions pull apart: one says Model and another Human.';
