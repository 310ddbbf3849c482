CREATE VIEW reliability AS
SELECT r.run_id, r.flow, r.started_at, s.candidate, r.judge, r.prompt_set, r.dataset, s.dimension, s.measure, s."value",
       s.ci_low, s.ci_high, s.n, s."method", r.dataset_key, r.protocol_key
FROM rates s JOIN evaluations r USING (run_id)
ORDER BY r.started_at DESC, r.run_id DESC, s.candidate, s.measure, dimension_position(s.run_id, s.dimension);
COMMENT ON VIEW reliability IS
    'How far the judge agrees with itself. Over orders and votes; also what outcomes hang on.';
-- run_id: Evaluation (evaluations.run_id).
