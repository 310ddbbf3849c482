-- What was paid is paid, whatever became of its run: runs that never ended and shards that were run again are in here.
CREATE VIEW spend AS
WITH paid AS (
    SELECT CASE WHEN j.reused_from = '' THEN j.judged_at ELSE r.started_at END AS moment,
           CASE WHEN j."control" = 'anchor' THEN 'anchors' WHEN r.status = 'quote' THEN 'pilot'
                ELSE coalesce(nullif(r.made_for, ''), 'run') END AS purpose,
           j.flow, j.judge_answered, j.judge_asked, j.service_tier, j.price_source, j.status, j.reused_from <> '' AS reused,
           j.tokens_in, j.tokens_cached, j.tokens_written, j.tokens_pictures, j.tokens_out, j.tokens_reasoning,
           j.price, j.estimated, j.saved_by_reuse, j.saved_by_service_tier, j.saved_by_cache
    FROM judgments j JOIN runs r USING (run_id)
    UNION ALL BY NAME
    SELECT asked_at AS moment, purpose, flow, judge_answered, judge_asked, service_tier, price_source, status, false AS reused,
           tokens_in, tokens_cached, tokens_written, tokens_pictures, tokens_out, tokens_reasoning,
           price, estimated, 0 AS saved_by_reuse, saved_by_service_tier, saved_by_cache
    FROM other_calls
)
SELECT moment::DATE AS "day", flow, coalesce(nullif(judge_answered, ''), judge_asked) AS judge,
       coalesce(service_tier, '') AS service_tier, split_part(coalesce(price_source, ''), ':', 1) AS source,
       count(*) FILTER (NOT reused) AS calls, count(*) FILTER (reused) AS reused,
       sum(tokens_in)::BIGINT AS tokens_in, sum(tokens_cached)::BIGINT AS tokens_cached,
       coalesce(sum(tokens_written), 0)::BIGINT AS tokens_written,
       coalesce(sum(tokens_pictures), 0)::BIGINT AS tokens_pictures, sum(tokens_out)::BIGINT AS tokens_out,
       coalesce(sum(tokens_reasoning), 0)::BIGINT AS tokens_reasoning,
       billed_sum(price, status) AS price,
       known_sum(estimated, price_source) AS estimated,
       known_sum(saved_by_reuse, price_source) AS saved_by_reuse,
       known_sum(saved_by_service_tier, price_source) AS saved_by_service_tier,
       known_sum(saved_by_cache, price_source) AS saved_by_cache,
       purpose
FROM paid
GROUP BY ALL
ORDER BY "day" DESC, flow, judge, service_tier, source, purpose;
COMMENT ON VIEW spend IS 'Spending by day, judge and purpose, unfinished runs included.';
-- day: Day, UTC.
-- flow: Flow; empty: none.
-- judge: Judge as answered; as asked where no answer came.
-- service_tier: Service tier as billed.
-- source: Place that the price is from.
-- calls: Calls made.
-- reused: Replies reused from earlier runs.
-- price: Sum of the prices. NULL: that of some answered call is unknown, see source.
-- estimated: Estimated cost of sends that timed out; in no price. NULL: unknown for some call.
-- saved_by_reuse: Saved by reused replies. NULL: unknown for some call.
-- saved_by_service_tier: Saved by the service tier. NULL: unknown for some call.
-- saved_by_cache: Saved by the endpoint's cache. NULL: unknown for some call.
-- purpose: run; anchors; pilot: for a quote; bridge; probe: whether a judge is there; passport: an exam.
