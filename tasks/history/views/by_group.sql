CREATE VIEW by_group AS
SELECT r.run_id, r.flow, r.started_at, s.candidate, r.judge, r.prompt_set, r.dataset, r.dataset_key, r.protocol_key,
       s."grouping", s.group_name, s.dimension, s.measure, s.n, s.scored, s.model_wins, s.human_wins, s.both_good,
       s.both_bad, s.mixed, s.mixed_votes, s.ties, s.forfeits, s.carried, s.prompts, s.score, s.image_mean, s.ci_low,
       s.ci_high, s."method", s.worst_low, s.worst_high, s.coverage, s.shift, s.shift_low, s.shift_high,
       s.vs_best, s.vs_best_low, s.vs_best_high, s.vs_best_n, s.vs_best_of,
       s.vs_best_worst_low, s.vs_best_worst_high, s.vs_best_p, s.vs_best_among
FROM scores s JOIN evaluations r USING (run_id);
COMMENT ON VIEW by_group IS
    'All scores with what they were measured on; leaderboard, by_category and by_difficulty are parts of it.';
