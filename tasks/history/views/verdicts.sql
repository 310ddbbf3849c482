CREATE VIEW verdicts AS
WITH each_dimension AS (
    SELECT run_id, flow, candidate, sample_id, category, difficulty, status, unnest(dimensions, max_depth := 2)
    FROM outcomes
    UNION ALL BY NAME
    SELECT run_id, flow, candidate, sample_id, category, difficulty, status,
           'overall' AS dimension, overall AS verdict, score
    FROM outcomes
)
SELECT s.evaluation_id AS run_id, flow, candidate, sample_id, category, difficulty, dimension, verdict, score, status,
       human_first, model_first, votes, ok_votes, order_flip, reversal
FROM each_dimension JOIN shard_runs s USING (run_id);
COMMENT ON VIEW verdicts IS 'Verdicts by sample and dimension, overall among them. Of images the overall score.';
-- run_id: Evaluation (evaluations.run_id).
-- dimension: Dimension, or overall: the result of the tier rule.
-- verdict: Merged verdict of orders and votes; of overall Model, Human or Tie. NULL: none was reached, see status.
-- score: Model 100, neutral or Tie 50, Human 0; of images 0-10, of checklists 0-100. NULL: undecided, see status.
-- human_first: Verdict where the Human figure came first.
-- model_first: Verdict where the Model figure came first; NULL: not asked.
-- votes: Votes that were asked for.
-- ok_votes: Votes with a usable verdict.
-- order_flip: True if the two orders disagree.
-- reversal: True if one order says Model and the other Human.
