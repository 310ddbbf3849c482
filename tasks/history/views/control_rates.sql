-- The status of a rate needs its exact interval, which is no SQL: tasks/controls/status.py and the report have it.
CREATE VIEW control_rates AS
SELECT s.evaluation_id AS run_id, r.flow, r.started_at, r.model, r.prompt_set, c.measure, count(c.failed) AS n,
       count(*) FILTER (c.failed) AS failed, count(*) FILTER (c.failed) / nullif(count(c.failed), 0) AS rate,
       count(*) - count(c.failed) AS unusable
FROM controls c JOIN shard_runs s USING (run_id) JOIN evaluations r ON r.run_id = s.evaluation_id
GROUP BY ALL
ORDER BY r.started_at DESC, s.evaluation_id DESC, c.measure;
COMMENT ON VIEW control_rates IS
    'How often the judge of a run failed on control samples: false preference between equal pictures, neglect of '
    'foreign or blank ones, injection by painted instructions. rate is failed / n; unusable counts '
    'controls without a usable answer.';
