-- The same quantity on both sides: the mean of the dimensions, or of the tags, and never the rule's overall.
CREATE VIEW anchors AS
WITH judged AS (
    SELECT s.evaluation_id AS run_id, count(*) AS anchors, count(a.score) AS judged, avg(a.score) AS anchor_score
    FROM anchor_outcomes a JOIN shard_runs s USING (run_id) GROUP BY ALL
), measured AS (
    SELECT run_id, candidate, avg(score) AS candidate_score FROM scores
    WHERE "grouping" = 'all' AND measure = 'score' AND dimension <> 'overall'
    GROUP BY ALL HAVING count(score) = count(*)
), answered AS (
    SELECT s.evaluation_id AS run_id, list_sort(list_distinct(list(j.system_fingerprint))) AS fingerprints,
           list_sort(list_distinct(list(j.judge_answered))) AS judges_answered
    FROM judgments j JOIN shard_runs s USING (run_id)
    WHERE j.status = 'ok' AND j.reused_from = '' AND j."control" = 'anchor' GROUP BY ALL
)
SELECT r.run_id, r.flow, r.started_at, r.dataset, m.candidate, r.judge, r.prompt_set, r.anchors_key, j.anchors,
       j.judged, j.anchor_score, m.candidate_score, m.candidate_score - j.anchor_score AS difference,
       r.protocol_key = lag(r.protocol_key) OVER series AND r.dataset_key = lag(r.dataset_key) OVER series
           AND r.anchors_key = lag(r.anchors_key) OVER series AS comparable,
       n.moved, n.moved_since, n.moved_nights, n.judge_shift, n.judge_low, n.judge_high, n.candidate_shift,
       n.candidate_low, n.candidate_high, n.judge_since, a.judges_answered, a.fingerprints, r.protocol_key, r.dataset_key
FROM judged j JOIN evaluations r USING (run_id) LEFT JOIN measured m USING (run_id) LEFT JOIN answered a USING (run_id)
    LEFT JOIN anchor_nights n USING (run_id, candidate)
WINDOW series AS (
    PARTITION BY r.flow, r.dataset, m.candidate, r.judge, r.prompt_set ORDER BY r.started_at, r.run_id)
ORDER BY r.flow, r.dataset, m.candidate, r.judge, r.prompt_set, r.started_at, r.run_id;
COMMENT ON VIEW anchors IS 'Scores of frozen anchors beside those of the candidates. Oldest first.';
-- anchors: Anchors that are frozen.
-- judged: Anchors with every score.
-- anchor_score: Mean score of the anchors, over their dimensions (tags).
-- candidate_score: Mean of the candidate's dimensions (tags), the same quantity. NULL: a dimension has no score.
-- difference: candidate_score minus anchor_score.
-- comparable: True if protocol, dataset and anchors equal those of the row before; NULL for the first.
-- moved: Cause of an open alarm: judge moved, candidate moved, both or cannot tell; NULL: no alarm is open.
-- judges_answered: Models that answered about anchors.
-- fingerprints: System fingerprints of these replies.
