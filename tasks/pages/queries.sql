-- Queries of the pages. Each begins with a line of dashes, its name and what it answers. $run is the evaluation. Queries
-- named index_ are for the store's index, which lists evaluations from the moment $since on.

-- evaluation: What was run
SELECT run_id, flow, started_at, finished_at, seconds, shards, dataset, candidates, samples, prompt_set, judge, endpoint,
       protocol, parameters, replies, anew, calls, scheduled, measured, stopped, warnings,
       coalesce(try_cast(parameters->'judge'->>'price_in' AS DOUBLE)
           + try_cast(parameters->'judge'->>'price_out' AS DOUBLE) > 0, false) AS own_prices
FROM evaluations WHERE run_id = $run;

-- scores: Scores over all samples, by category and difficulty, and of the aspects
SELECT * FROM scores WHERE run_id = $run AND (dimension = 'overall' OR "grouping" NOT IN ('category', 'difficulty'))
ORDER BY candidate, dimension_position(run_id, dimension), dimension, CASE WHEN "grouping" <> 'aspect' THEN group_name END;

-- all_tags: All tags together
SELECT candidate, score, ci_low, ci_high, good, satisfied, tags, missing, runs, best, vs_best, vs_best_low, vs_best_high,
       vs_best_worst_low, vs_best_worst_high
FROM t2i_leaderboard WHERE tag = 'overall' AND list_contains(runs, $run) ORDER BY candidate;

-- people: What people say of the scores (jury labels page)
SELECT * FROM corrected WHERE run_id = $run;

-- rates: Order and votes
SELECT candidate, dimension, measure, n, value, ci_low, ci_high, "method"
FROM rates WHERE run_id = $run ORDER BY candidate, dimension_position(run_id, dimension), dimension;

-- controls: Control samples
SELECT measure, n, failed, unusable, samples, failed_samples FROM control_rates WHERE run_id = $run;

-- cost: Calls, tokens and price
SELECT judge, calls, reused, tokens_in, tokens_out, tokens_cached, price, estimated, saved, seconds
FROM cost WHERE run_id = $run;

-- statuses: Statuses of calls and samples
SELECT 'judgments' AS kind, status, count(*) AS n
FROM judgments JOIN shard_runs USING (run_id)
WHERE evaluation_id = $run AND last_attempt AND coalesce(control, '') = '' GROUP BY ALL
UNION ALL
SELECT 'samples', status, count(*) FROM outcomes JOIN shard_runs USING (run_id) WHERE evaluation_id = $run GROUP BY ALL
ORDER BY kind, n DESC, status;

-- trend: Scores over time
SELECT t.candidate, t.dimension, t.started_at, t.run_id, t.score, t.ci_low, t.ci_high, t.break_reason, t.baseline_score,
       t.dropped, t.edited
FROM trend t JOIN evaluations e USING (flow, dataset, judge, prompt_set)
WHERE e.run_id = $run AND list_contains(e.candidates, t.candidate) AND t.started_at <= e.started_at
QUALIFY dense_rank() OVER (ORDER BY t.started_at DESC, t.run_id DESC) <= 60
ORDER BY t.candidate, t.dimension <> 'overall', max(dimension_position(t.run_id, t.dimension)) OVER (
    PARTITION BY t.candidate, t.dimension), t.dimension, t.started_at, t.run_id;

-- samples: The samples
SELECT sample_id, candidate, category, difficulty, tag, prompt, status, overall, score, aspects, satisfied,
       CASE WHEN score IS NOT NULL
            THEN coalesce(CASE WHEN score_scale = 10 THEN aspect_mean END,
                          list_avg(list_transform(dimensions, lambda each: each.score)), score) END AS mean,
       pivotal, tier, tier_path, dimensions, caption, problem, notes, injected, caught,
       pictures['human'].source_sha256 AS human, pictures['model'].source_sha256 AS model,
       pictures['image'].source_sha256 AS image
FROM outcomes JOIN shard_runs USING (run_id) WHERE evaluation_id = $run;

-- reasons: What the judge said
SELECT candidate, sample_id, dimension, "order", vote, status, verdict, seen, reasoning, error,
       list_filter(scores, lambda each: each.aspect = 'overall_score')[1].score AS score
FROM judgments JOIN shard_runs USING (run_id)
WHERE evaluation_id = $run AND last_attempt AND coalesce(control, '') = ''
ORDER BY candidate, sample_id, dimension_position(evaluation_id, dimension), dimension, "order", vote;

-- index_evaluations: All evaluations, the newest first
SELECT run_id, flow, started_at, dataset, candidates, judge, endpoint, prompt_set, series_key, protocol_key, measured,
       stopped, coalesce(try_cast(parameters->'judge'->>'price_in' AS DOUBLE)
           + try_cast(parameters->'judge'->>'price_out' AS DOUBLE) > 0, false) AS own_prices, count(*) OVER () AS total,
       bool_or(scheduled) OVER () AS any_scheduled
FROM evaluations ORDER BY started_at DESC, run_id DESC LIMIT 2000;

-- index_scores: Their scores over all samples
SELECT * EXCLUDE (started_at, judge, prompt_set, dataset, dataset_key, protocol_key)
FROM by_group WHERE "grouping" = 'all' AND started_at >= $since
ORDER BY started_at DESC, run_id DESC, candidate, dimension_position(run_id, dimension), dimension;

-- index_best: Scores beside the best, where the newest evaluations of the candidates are different ones
SELECT runs[1] AS run_id, candidate, dimension, change AS vs_best, ci_low AS vs_best_low, ci_high AS vs_best_high,
       n AS vs_best_n, "of" AS vs_best_of, worst_low AS vs_best_worst_low, worst_high AS vs_best_worst_high,
       p AS vs_best_p, among AS vs_best_among
FROM versus_best WHERE flow <> '';

-- index_worst: Lowest scores of an evaluation, with the reply that led to the outcome
WITH lowest AS (
    SELECT run_id, candidate, sample_id, overall, tier_path,
           coalesce(CASE WHEN score_scale = 10 THEN aspect_mean END,
                    list_avg(list_transform(dimensions, lambda each: each.score)), score) AS mean,
           coalesce(pictures['model'], pictures['image']).source_sha256 AS picture
    FROM outcomes JOIN shard_runs USING (run_id) WHERE evaluation_id = $run AND outcomes.status = 'complete'
    ORDER BY mean, length(sample_id), sample_id, candidate LIMIT 3
)
SELECT candidate, sample_id, overall, picture,
       coalesce(arg_min(reasoning, (dimension_position($run, dimension), "order", vote))
           FILTER (verdict = overall AND last_attempt AND coalesce(control, '') = ''), tier_path) AS words
FROM lowest LEFT JOIN judgments USING (run_id, candidate, sample_id)
GROUP BY candidate, sample_id, overall, picture, tier_path, mean
ORDER BY mean, length(sample_id), sample_id, candidate;

-- index_controls: Results of their control samples
SELECT run_id, measure, n, failed, unusable, samples, failed_samples FROM control_rates WHERE started_at >= $since;

-- index_cost: Their cost
SELECT run_id, sum(calls)::BIGINT AS calls, CASE WHEN count(price) = count(*) THEN sum(price) END AS price
FROM cost WHERE started_at >= $since GROUP BY run_id;

-- index_people: Their scores as corrected by people
SELECT * FROM corrected WHERE started_at >= $since;
