-- Shards that no judge answered, because they held nothing to ask, say nothing of how the others were judged.
CREATE MACRO joint_key(one, answered) AS CASE count(DISTINCT one) FILTER (answered)
    WHEN 0 THEN max(one) WHEN 1 THEN max(one) FILTER (answered)
    ELSE sha256(string_agg(DISTINCT one, ' ' ORDER BY one) FILTER (answered)) END;

CREATE VIEW evaluations AS
-- A reply belongs to the first whole evaluation that has it. So do those of a run that was killed, or stopped at its
-- budget, belong to the one that went on with it.
WITH origins AS (
    SELECT s.evaluation_id, s.run_id, started_at, stopped IS NULL AS whole, unnest(map_entries(replies_from)) AS origin
    FROM shard_runs s JOIN runs USING (run_id)
), gathered AS (
    SELECT evaluation_id, origin.key AS origin, sum(origin.value) AS n, min(started_at) AS began,
           bool_and(whole) AS whole
    FROM origins GROUP BY evaluation_id, origin.key
), held AS (
    -- Of whole ones the first; one that stopped at its budget takes nothing from the one that went on with it.
    SELECT evaluation_id, n,
           count(*) FILTER (whole) OVER (PARTITION BY origin ORDER BY began, evaluation_id
                                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) = 0 AS is_first
    FROM gathered
), fresh AS (
    SELECT evaluation_id, sum(n)::BIGINT AS replies, coalesce(sum(n) FILTER (is_first), 0)::BIGINT AS anew
    FROM held GROUP BY evaluation_id
)
SELECT s.evaluation_id AS run_id, any_value(flow) AS flow, min(started_at) AS started_at,
       max(finished_at) AS finished_at,
       CASE WHEN count(*) = 1 THEN max(seconds) ELSE epoch(max(finished_at) - min(started_at)) END AS seconds,
       count(*) AS shards, bool_or(scheduled) AS scheduled, any_value(dataset) AS dataset,
       any_value(dataset_key) AS dataset_key, any_value(coalesce(nullif(series_key, ''), dataset_key)) AS series_key,
       list_sort(list_distinct(flatten(list(candidates)))) AS candidates,
       sum(samples)::BIGINT AS samples, any_value(prompt_set) AS prompt_set, any_value(prompts) AS prompts,
       any_value(dimensions) AS dimensions, any_value(judge) AS judge, any_value(endpoint) AS endpoint,
       coalesce(max(anchors_key), '') AS anchors_key,
       joint_key(protocol_key, protocol['model answered'] <> '') AS protocol_key,
       joint_key(judge_key, protocol['model answered'] <> '') AS judge_key,
       any_value(protocol) AS protocol, any_value(parameters) AS parameters, sum(calls)::BIGINT AS calls,
       sum(reused)::BIGINT AS reused,
       coalesce(any_value(f.replies), 0) AS replies, coalesce(any_value(f.anew), 0) AS anew,
       CASE WHEN count(stopped) > 0 THEN {
           'budget': max(stopped.budget), 'month': max(stopped."month"), 'spent': sum(stopped.spent),
           'needed': max(stopped.needed),
           'judged': sum(coalesce(stopped.judged, samples))::BIGINT, 'samples': sum(samples)::BIGINT,
           'is_random': count(*) = 1 AND bool_or(stopped.is_random)} END AS stopped,
       count(stopped) = 0 AND count(finished_at) = count(*) AND CASE WHEN any_value(f.replies) > 0 THEN 2 * any_value(f.anew) >= any_value(f.replies)
            ELSE sum(calls) > coalesce(sum(control_calls), 0) OR sum(reused) = 0 END AS measured,
       list_distinct(flatten(list(warnings))) AS warnings, max(revision) AS revision
FROM shard_runs s JOIN runs USING (run_id) LEFT JOIN fresh f ON f.evaluation_id = s.evaluation_id
GROUP BY s.evaluation_id;
COMMENT ON VIEW evaluations IS
    'Finished runs; the shards of an evaluation are one row. Every view but failures and spend goes by it.';
-- run_id: Id of the run; of shards, that of their evaluation.
-- series_key: Hash of the dataset without questions that may be edited one by one: equal in all runs of a series.
-- replies: Ok replies about its samples.
-- anew: Those of them that no earlier evaluation has.
-- measured: It did not stop at its budget, and at least half of its replies are anew. Others are in no trend.
