CREATE VIEW changes AS
WITH series AS (
    SELECT run_id, protocol_key, dataset_key, candidate, lag(run_id) OVER one AS before,
           protocol_key = lag(protocol_key) OVER one AND dataset_key = lag(dataset_key) OVER one AS comparable
    FROM (SELECT *, unnest(candidates) AS candidate FROM evaluations WHERE measured)
    WINDOW one AS (PARTITION BY flow, dataset, candidate, judge, prompt_set ORDER BY started_at, run_id)
)
SELECT n.candidate, n.sample_id, b.score AS score_before, n.score, n.score - b.score AS change,
       coalesce(b.overall, b.status) AS outcome_before, coalesce(n.overall, n.status) AS outcome, n.tag, n.prompt,
       n.caption, n.flow, n.dataset, n.judge, comparable, n.started_at, before AS run_before, n.run_id, n.picture,
       b.picture AS picture_before, n.human_picture
FROM series JOIN samples n USING (run_id, candidate)
    JOIN samples b ON (b.run_id, b.candidate, b.sample_id) = (before, n.candidate, n.sample_id)
WHERE (n.score, n.overall, n.status) IS DISTINCT FROM (b.score, b.overall, b.status)
ORDER BY n.started_at DESC, n.run_id DESC, n.candidate, abs(n.score - b.score) DESC, n.sample_id;
COMMENT ON VIEW changes IS
    'Samples whose outcome differs from the run before. That is the one before it that measured something on the same '
    'flow, dataset, judge and prompt set; jury compare takes any two.';
-- score_before: Score in the run before. NULL: undecided, see outcome_before.
-- score: Figures: Model 100, Tie 50, Human or forfeit 0. Images: 0-10. Checklists: 0-100. NULL: undecided, see outcome.
-- change: score minus score_before.
-- outcome_before: Overall verdict, or status, in the run before.
-- outcome: Overall verdict; of images, and where there is none, the status.
-- comparable: True if both runs have equal keys: the same samples, judged alike.
-- run_before: The run before (evaluations.run_id).
-- picture_before: File of the picture that was judged then.
