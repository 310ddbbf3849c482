-- Of each shard the newest run that finished: one that was killed is run again. A run on its own is its only shard.
CREATE VIEW shard_runs AS
SELECT run_id, evaluation_id FROM (
    SELECT run_id, evaluation_id, dataset_key, coalesce(shards, 1) AS shards FROM runs WHERE status = 'finished'
    QUALIFY row_number() OVER (
        PARTITION BY evaluation_id, dataset_key, shard ORDER BY started_at DESC, run_id DESC) = 1)
QUALIFY count(*) OVER (PARTITION BY evaluation_id, dataset_key) = shards;
COMMENT ON VIEW shard_runs IS
    'Runs that make up each complete evaluation. They are all of its shards, on the same dataset, or the one run that '
    'it is.';
