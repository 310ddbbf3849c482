CREATE VIEW by_difficulty AS
SELECT group_name AS difficulty, * EXCLUDE ("grouping", group_name, measure, prompts, image_mean,
    vs_best, vs_best_low, vs_best_high, vs_best_n, vs_best_of, vs_best_worst_low, vs_best_worst_high,
    vs_best_p, vs_best_among)
FROM by_group WHERE "grouping" = 'difficulty'
ORDER BY started_at DESC, run_id DESC, candidate, difficulty, dimension_position(run_id, dimension);
COMMENT ON VIEW by_difficulty IS 'Scores of figures by difficulty. Samples without one are in the leaderboard only.';
-- difficulty: Difficulty of the samples.
