-- What was paid is paid, whatever became of its run: runs that never ended and shards that were run again are in here.
CREATE VIEW spend AS
SELECT (CASE WHEN j.reused_from = '' THEN j.judged_at ELSE r.started_at END)::DATE AS "day", j.flow,
       coalesce(nullif(j.model_answered, ''), j.model_asked) AS model, coalesce(j.tier, '') AS tier,
       split_part(coalesce(j.price_source, ''), ':', 1) AS source,
       count(*) FILTER (j.reused_from = '') AS calls, count(*) FILTER (j.reused_from <> '') AS reused,
       sum(j.tokens_in)::BIGINT AS tokens_in, sum(j.tokens_cached)::BIGINT AS tokens_cached,
       coalesce(sum(j.tokens_written), 0)::BIGINT AS tokens_written,
       coalesce(sum(j.tokens_pictures), 0)::BIGINT AS tokens_pictures, sum(j.tokens_out)::BIGINT AS tokens_out,
       coalesce(sum(j.tokens_reasoning), 0)::BIGINT AS tokens_reasoning,
       billed_sum(j.price, j.status) AS price,
       known_sum(j.estimated, j.price_source) AS estimated,
       known_sum(j.saved_by_reuse, j.price_source) AS saved_by_reuse,
       known_sum(j.saved_by_tier, j.price_source) AS saved_by_tier,
       known_sum(j.saved_by_cache, j.price_source) AS saved_by_cache
FROM judgments j JOIN runs r USING (run_id)
GROUP BY ALL
ORDER BY "day" DESC, j.flow, model, tier, source;
COMMENT ON VIEW spend IS
    'What was spent by day (UTC), flow, model as answered, tier as billed and place that the price is from: calls, '
    'tokens by kind, price, what calls that timed out may have cost besides (estimated, in no price), and what reused '
    'replies, the tier and the cache saved. Unfinished runs are in it. NULL: unknown for at least one call.';
