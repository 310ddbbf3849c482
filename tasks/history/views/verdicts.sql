CREATE VIEW verdicts AS
WITH each_dimension AS (
    SELECT run_id, flow, candidate, sample_id, category, difficulty, status, unnest(dimensions, max_depth := 2)
    FROM outcomes
    UNION ALL BY NAME
    SELECT run_id, flow, candidate, sample_id, category, difficulty, status,
           'overall' AS dimension, overall AS verdict, score, published
    FROM outcomes
)
SELECT s.evaluation_id AS run_id, flow, candidate, sample_id, category, difficulty, dimension, verdict, score, status,
       human_first, model_first, published, votes, ok_votes, order_flip, reversal
FROM each_dimension JOIN shard_runs s USING (run_id);
COMMENT ON VIEW verdicts IS
    'A row a sample and dimension (overall among them): verdict, score, votes, and whether the orders disagree '
    '(order_flip; reversal: Model against Human).';
