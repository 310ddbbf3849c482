CREATE VIEW judge_versions AS
WITH told AS (
    SELECT s.evaluation_id AS run_id, j.judge_answered, coalesce(j.system_fingerprint, '') AS system_fingerprint,
           count(*) AS replies, min(j.judged_at) AS first_at, max(j.judged_at) AS last_at
    FROM judgments j JOIN shard_runs s USING (run_id)
    WHERE j.reused_from = '' AND j.judge_answered <> '' GROUP BY ALL
), versions AS (
    SELECT run_id, list_sort(list(struct_pack(judge_answered, system_fingerprint))) AS versions FROM told GROUP BY ALL
), series AS (
    SELECT r.run_id, lag(v.versions) OVER (
        PARTITION BY r.flow, r.dataset, r.judge, r.endpoint ORDER BY r.started_at, r.run_id) AS before
    FROM versions v JOIN evaluations r USING (run_id)
)
SELECT run_id, r.flow, r.started_at, r.dataset, r.judge, t.judge_answered, t.system_fingerprint, t.replies, t.first_at,
       t.last_at, NOT list_contains(s.before, struct_pack(t.judge_answered, t.system_fingerprint)) AS is_new
FROM told t JOIN evaluations r USING (run_id) JOIN series s USING (run_id)
ORDER BY r.started_at DESC, run_id DESC, t.first_at;
COMMENT ON VIEW judge_versions IS
    'Models and fingerprints that answered, night by night. A changed fingerprint says that something changed, not '
    'that it matters: the view anchors shows that.';
-- run_id: Evaluation (evaluations.run_id).
-- replies: Replies with this model and fingerprint.
-- first_at: Time of the first of them, UTC.
-- last_at: Time of the last of them, UTC.
-- is_new: True if the run before of the same flow, dataset and judge did not have it; NULL for the first run.
