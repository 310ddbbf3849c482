CREATE VIEW disagreements AS
SELECT candidate, sample_id, [d.dimension FOR d IN dimensions IF d.verdict = 'Model'] AS model_dimensions,
       [d.dimension FOR d IN dimensions IF d.verdict = 'Human'] AS human_dimensions, overall, tier, tier_path,
       category, difficulty, flow, started_at, run_id, picture, human_picture
FROM samples
WHERE len(model_dimensions) > 0 AND len(human_dimensions) > 0
ORDER BY started_at DESC, run_id DESC, candidate, sample_id;
COMMENT ON VIEW disagreements IS 'Figures on whose dimensions Model and Human each win.';
-- model_dimensions: Dimensions with the verdict Model.
-- human_dimensions: Dimensions with the verdict Human.
