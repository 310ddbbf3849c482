-- Shards that no judge answered, because they held nothing to ask, say nothing of how the others were judged.
CREATE MACRO joint_key(one, answered) AS CASE count(DISTINCT one) FILTER (answered)
    WHEN 0 THEN max(one) WHEN 1 THEN max(one) FILTER (answered)
    ELSE sha256(string_agg(DISTINCT one, ' ' ORDER BY one) FILTER (answered)) END;

CREATE VIEW evaluations AS
SELECT s.evaluation_id AS run_id, any_value(flow) AS flow, min(started_at) AS started_at,
       max(finished_at) AS finished_at,
       CASE WHEN count(*) = 1 THEN max(seconds) ELSE epoch(max(finished_at) - min(started_at)) END AS seconds,
       count(*) AS shards, bool_or(scheduled) AS scheduled, any_value(dataset) AS dataset,
       any_value(dataset_key) AS dataset_key, list_sort(list_distinct(flatten(list(candidates)))) AS candidates,
       sum(samples)::BIGINT AS samples, any_value(prompt_set) AS prompt_set, any_value(prompts) AS prompts,
       any_value(dimensions) AS dimensions, any_value(model) AS model, any_value(endpoint) AS endpoint,
       joint_key(protocol_key, protocol['model answered'] <> '') AS protocol_key,
       joint_key(judge_key, protocol['model answered'] <> '') AS judge_key,
       any_value(protocol) AS protocol, any_value(parameters) AS parameters, sum(calls)::BIGINT AS calls,
       sum(reused)::BIGINT AS reused,
       sum(calls) > coalesce(sum(sham_calls), 0) OR sum(reused) = 0 AS measured,
       list_distinct(flatten(list(warnings))) AS warnings
FROM shard_runs s JOIN runs USING (run_id)
GROUP BY s.evaluation_id;
COMMENT ON VIEW evaluations IS
    'One row a finished run, or all shards of an evaluation as one: run_id is then the evaluation''s. Every view '
    'but failures goes by it. measured: not every reply about its samples was taken from earlier runs.';
