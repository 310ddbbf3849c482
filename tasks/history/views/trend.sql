-- What two protocols do not share, by name; the model asked for is no part of them, only the one that answered.
CREATE MACRO protocol_differences(one, other) AS list_filter(
    list_sort(list_distinct(list_concat(map_keys(one), map_keys(other)))),
    lambda name: name <> 'model asked' AND one[name] IS DISTINCT FROM other[name]);

CREATE VIEW trend AS
WITH measured AS (
    SELECT *, lag(run_id) OVER series AS before, protocol_key = lag(protocol_key) OVER series AS same_protocol,
           series_key = lag(series_key) OVER series AS same_dataset,
           dataset_key <> lag(dataset_key) OVER series AS other_questions,
           dimension = 'overall' OR count(*) OVER (PARTITION BY run_id, candidate) = 1 AS is_headline
    FROM by_group JOIN (SELECT run_id, series_key FROM evaluations WHERE measured) USING (run_id)
    WHERE "grouping" = 'all' AND measure = 'score'
    WINDOW series AS (PARTITION BY flow, dataset, candidate, judge, prompt_set, dimension ORDER BY started_at, run_id)
), breaks AS (
    SELECT DISTINCT run_id, before, same_dataset FROM measured WHERE NOT (same_protocol AND same_dataset)
), reasons AS (
    SELECT b.run_id, b.before, array_to_string(list_concat(
               CASE WHEN b.same_dataset THEN [] ELSE ['dataset'] END,
               protocol_differences(now.protocol, earlier.protocol)), ', ') AS reason
    FROM breaks b JOIN evaluations now USING (run_id) JOIN evaluations earlier ON earlier.run_id = b.before
)
SELECT m.flow, m.dataset, m.candidate, m.judge, m.prompt_set, m.dimension, m.started_at, m.run_id, m.n, m.scored,
       m.score, m.ci_low, m.ci_high, m.coverage, m.protocol_key, m.dataset_key,
       same_protocol AND same_dataset AS comparable,
       CASE WHEN NOT comparable THEN coalesce(nullif(r.reason, ''), 'protocols of its shards') END AS break_reason,
       comparable AND other_questions AS edited, a.moved, n.baseline_score, n.alarm IS NOT NULL AS dropped
FROM measured m LEFT JOIN reasons r ON r.run_id = m.run_id AND r.before = m.before
    LEFT JOIN anchor_nights a ON a.run_id = m.run_id AND a.candidate = m.candidate
    LEFT JOIN nights n ON n.run_id = m.run_id AND n.candidate = m.candidate AND is_headline
ORDER BY m.flow, dataset, m.candidate, judge, prompt_set, max(dimension_position(m.run_id, dimension)) OVER (
    PARTITION BY m.flow, dataset, m.candidate, judge, prompt_set, dimension), dimension, m.started_at, m.run_id;
COMMENT ON VIEW trend IS
    'Scores over time by candidate and dimension or tag. Oldest first. Runs without replies of their own are left out '
    '(evaluations.measured).';
-- comparable: True if both runs belong to one series; NULL for the first. False: see break_reason.
-- break_reason: Items of the protocol that differ from the row before, and dataset where that differs.
-- edited: True if some questions of the list differ from those of the row before; jury compare counts them. NULL: first.
-- moved: Cause of an open alarm by its anchors: judge moved, candidate moved, both or cannot tell.
-- baseline_score: Baseline of the nightly alarm, in rows that it goes by: overall, or the only tag, of scheduled runs.
-- dropped: True while the nightly alarm is open.
