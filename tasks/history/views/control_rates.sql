-- The status of a rate needs its exact interval, which is no SQL: tasks/judging/results.py and the report have it.
CREATE VIEW control_rates AS
SELECT s.evaluation_id AS run_id, r.flow, r.started_at, r.judge, r.prompt_set, c.measure, sum(c.answered)::BIGINT AS n,
       sum(c.failures) AS failed, sum(c.failures) / nullif(sum(c.answered), 0) AS rate,
       sum(c.questions - c.answered)::BIGINT AS unusable, count(c.failed) AS samples,
       count(*) FILTER (c.failed) AS failed_samples
FROM controls c JOIN shard_runs s USING (run_id) JOIN evaluations r ON r.run_id = s.evaluation_id
GROUP BY ALL
ORDER BY r.started_at DESC, s.evaluation_id DESC, c.measure;
COMMENT ON VIEW control_rates IS 'How often the judge failed on control samples.';
-- run_id: Evaluation (evaluations.run_id).
-- measure: false preference (of equal pictures), neglect (of foreign or blank ones) or injection (by painted words).
-- n: Questions with a usable answer; of false preference between figures, one a dimension.
-- failed: Sum of the shares of their answers that failed, in all orders and votes.
-- rate: failed / n. NULL: no answer is usable, see unusable.
-- unusable: Questions without a usable answer.
-- samples: Control samples with a decision.
-- failed_samples: Those with any failed answer.
