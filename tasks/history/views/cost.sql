CREATE VIEW cost AS
SELECT r.run_id, r.flow, r.started_at, coalesce(nullif(j.judge_answered, ''), j.judge_asked) AS judge,
       count(*) FILTER (j.reused_from = '') AS calls, count(*) FILTER (j.reused_from <> '') AS reused,
       coalesce(sum(j.tokens_in) FILTER (j.reused_from = ''), 0)::BIGINT AS tokens_in,
       coalesce(sum(j.tokens_out) FILTER (j.reused_from = ''), 0)::BIGINT AS tokens_out,
       coalesce(sum(j.tokens_cached) FILTER (j.reused_from = ''), 0)::BIGINT AS tokens_cached,
       billed_sum(j.price, j.status) AS price,
       coalesce(sum(j.seconds) FILTER (j.reused_from = ''), 0) AS seconds,
       known_sum(j.estimated, j.price_source) AS estimated,
       known_sum(j.saved_by_reuse + j.saved_by_service_tier + j.saved_by_cache, j.price_source) AS saved
FROM judgments j JOIN shard_runs s USING (run_id) JOIN evaluations r ON r.run_id = s.evaluation_id
GROUP BY ALL
ORDER BY r.started_at DESC, r.run_id DESC, judge;
COMMENT ON VIEW cost IS
    'Calls made, replies reused, tokens, price and seconds in the judge by run and judge (as answered; as asked '
    'where no answer came). Tokens and seconds of reused replies are not counted again. price is NULL where that of '
    'any answered call is unknown. What calls that timed out may have cost besides is estimated, and in no price; '
    'saved: by reuse, service tier and cache together.';
