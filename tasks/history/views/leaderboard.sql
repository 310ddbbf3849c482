CREATE VIEW leaderboard AS
SELECT b.* EXCLUDE ("grouping", group_name, measure, prompts, image_mean, shift, shift_low, shift_high) REPLACE (
           CASE WHEN v.best IS NULL THEN b.vs_best ELSE v.change END AS vs_best,
           CASE WHEN v.best IS NULL THEN b.vs_best_low ELSE v.ci_low END AS vs_best_low,
           CASE WHEN v.best IS NULL THEN b.vs_best_high ELSE v.ci_high END AS vs_best_high,
           CASE WHEN v.best IS NULL THEN b.vs_best_n ELSE v.n END AS vs_best_n,
           CASE WHEN v.best IS NULL THEN b.vs_best_of ELSE v."of" END AS vs_best_of,
           CASE WHEN v.best IS NULL THEN b.vs_best_worst_low ELSE v.worst_low END AS vs_best_worst_low,
           CASE WHEN v.best IS NULL THEN b.vs_best_worst_high ELSE v.worst_high END AS vs_best_worst_high,
           CASE WHEN v.best IS NULL THEN b.vs_best_p ELSE v.p END AS vs_best_p,
           CASE WHEN v.best IS NULL THEN b.vs_best_among ELSE v.among END AS vs_best_among), v.best
FROM by_group b LEFT JOIN versus_best v
    ON v.flow = b.flow AND v.runs = [b.run_id] AND v.candidate = b.candidate AND v.dimension = b.dimension
WHERE b."grouping" = 'all' AND b.measure = 'score' AND b.model_wins IS NOT NULL
ORDER BY b.started_at DESC, b.run_id DESC, b.candidate, dimension_position(b.run_id, b.dimension);
COMMENT ON VIEW leaderboard IS
    'Figures: a row a run, candidate and dimension (overall among them), newest run first. Compare only rows of equal '
    'dataset_key and protocol_key. vs_best is the paired difference from the best candidate: of the '
    'run, or where the newest measured runs of the candidates are different ones, of those (best: which that is), its '
    'interval adjusted for choosing among vs_best_among candidates.';
