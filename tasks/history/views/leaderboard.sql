CREATE VIEW leaderboard AS
SELECT b.* EXCLUDE ("grouping", group_name, measure) REPLACE (
           CASE WHEN v.best IS NULL THEN b.vs_best ELSE v.change END AS vs_best,
           CASE WHEN v.best IS NULL THEN b.vs_best_low ELSE v.ci_low END AS vs_best_low,
           CASE WHEN v.best IS NULL THEN b.vs_best_high ELSE v.ci_high END AS vs_best_high,
           CASE WHEN v.best IS NULL THEN b.vs_best_n ELSE v.n END AS vs_best_n,
           CASE WHEN v.best IS NULL THEN b.vs_best_of ELSE v."of" END AS vs_best_of,
           CASE WHEN v.best IS NULL THEN b.vs_best_worst_low ELSE v.worst_low END AS vs_best_worst_low,
           CASE WHEN v.best IS NULL THEN b.vs_best_worst_high ELSE v.worst_high END AS vs_best_worst_high,
           CASE WHEN v.best IS NULL THEN b.vs_best_p ELSE v.p END AS vs_best_p,
           CASE WHEN v.best IS NULL THEN b.vs_best_among ELSE v.among END AS vs_best_among), v.best, o.score_scale
FROM by_group b LEFT JOIN versus_best v
    ON v.flow = b.flow AND v.runs = [b.run_id] AND v.candidate = b.candidate AND v.dimension = b.dimension
    LEFT JOIN (SELECT flow, any_value(score_scale) AS score_scale FROM outcomes GROUP BY flow) o ON o.flow = b.flow
WHERE b."grouping" = 'all' AND b.measure = 'score'
ORDER BY b.started_at DESC, b.run_id DESC, b.candidate, dimension_position(b.run_id, b.dimension);
COMMENT ON VIEW leaderboard IS
    'Scores by run, candidate and dimension or tag, newest first. Compare only rows of equal dataset_key and '
    'protocol_key; t2i_leaderboard joins the four flows of images.';
-- best: Candidate that vs_best compares with, where the newest measured runs of the candidates are different ones.
-- score_scale: Highest score: 100 for figures and checklists, 10 for images.
