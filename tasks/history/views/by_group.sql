CREATE VIEW by_group AS
SELECT s.candidate, s.dimension, s.measure, s."grouping", s.group_name, s.score, s.ci_low, s.ci_high, s.scored, s.n,
       s.coverage, s.worst_low, s.worst_high, s.model_wins, s.human_wins, s.both_good, s.both_bad, s.mixed,
       s.mixed_votes, s.ties, s.forfeits, s.carried, s.prompts, s.image_mean, s."method", s.vs_best, s.vs_best_low,
       s.vs_best_high, s.vs_best_n, s.vs_best_of, s.vs_best_worst_low, s.vs_best_worst_high, s.vs_best_p,
       s.vs_best_among, r.flow, r.dataset, r.judge, r.prompt_set, r.started_at, r.run_id, r.dataset_key,
       r.protocol_key
FROM scores s JOIN evaluations r USING (run_id);
COMMENT ON VIEW by_group IS 'All scores: of all samples, by category, difficulty or aspect.';
-- score: Mean, 0-100 for figures and checklists, 0-10 for images; of good and satisfied a share. NULL: none has one, see scored.
-- ci_low: Lower end of the 95% interval. NULL: fewer than 8 samples (of images: prompts) have a score, see scored.
-- ci_high: Upper end of the 95% interval. NULL: fewer than 8 samples (of images: prompts) have a score, see scored.
-- run_id: Evaluation (evaluations.run_id).
