CREATE VIEW cost AS
WITH asked AS (
    SELECT run_id, judge_answered, judge_asked, reused_from, tokens_in, tokens_out, tokens_cached, price, status, seconds,
           estimated, price_source, saved_by_reuse + saved_by_service_tier + saved_by_cache AS saved
    FROM judgments
    UNION ALL BY NAME
    SELECT asked_by AS run_id, judge_answered, judge_asked, '' AS reused_from, tokens_in, tokens_out, tokens_cached, price,
           status, seconds, estimated, price_source, saved_by_service_tier + saved_by_cache AS saved
    FROM other_calls WHERE purpose = 'probe'
)
SELECT r.run_id, r.flow, r.started_at, coalesce(nullif(j.judge_answered, ''), j.judge_asked) AS judge,
       count(*) FILTER (j.reused_from = '') AS calls, count(*) FILTER (j.reused_from <> '') AS reused,
       coalesce(sum(j.tokens_in) FILTER (j.reused_from = ''), 0)::BIGINT AS tokens_in,
       coalesce(sum(j.tokens_out) FILTER (j.reused_from = ''), 0)::BIGINT AS tokens_out,
       coalesce(sum(j.tokens_cached) FILTER (j.reused_from = ''), 0)::BIGINT AS tokens_cached,
       billed_sum(j.price, j.status) AS price,
       coalesce(sum(j.seconds) FILTER (j.reused_from = ''), 0) AS seconds,
       known_sum(j.estimated, j.price_source) AS estimated,
       known_sum(j.saved, j.price_source) AS saved
FROM asked j JOIN shard_runs s USING (run_id) JOIN evaluations r ON r.run_id = s.evaluation_id
GROUP BY ALL
ORDER BY r.started_at DESC, r.run_id DESC, judge;
COMMENT ON VIEW cost IS 'Calls, tokens, price and seconds by run and judge. First questions are included.';
-- run_id: Evaluation (evaluations.run_id).
-- flow: Flow of the run.
-- judge: Judge as answered; as asked where no answer came.
-- calls: Calls made.
-- reused: Replies reused from earlier runs; their tokens and seconds are not counted again.
-- price: Sum of the prices. NULL: that of some answered call is unknown, see calls.
-- seconds: Seconds in the judge.
-- estimated: Estimated cost of sends that timed out; in no price. NULL: unknown for some call.
-- saved: Saved by reuse, service tier and cache together. NULL: unknown for some call.
