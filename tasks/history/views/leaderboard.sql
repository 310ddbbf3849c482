CREATE VIEW leaderboard AS
SELECT * EXCLUDE ("grouping", group_name, measure, prompts, image_mean, shift, shift_low, shift_high) FROM by_group
WHERE "grouping" = 'all' AND measure = 'score' AND model_wins IS NOT NULL
ORDER BY started_at DESC, run_id DESC, candidate, dimension_position(dimension);
COMMENT ON VIEW leaderboard IS
    'Figures: a row a run, candidate and dimension (overall among them), newest run first. Compare only rows of equal '
    'dataset_key and protocol_key. vs_best is the paired difference from the best candidate of the run. '
    'full_n, full_low, full_high: of a run that stopped at its budget, the samples that it would have judged in all, and '
    'the 95% interval of what it would have scored; score is what is expected.';
