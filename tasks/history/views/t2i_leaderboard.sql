-- Of each flow the newest finished run that has the candidate and did not stop at its budget, where dataset, judge and prompt set are the same.
-- If it is no new measurement, its candidate stands beside the others by the run whose replies it reused.
CREATE VIEW t2i_leaderboard AS
WITH tagged AS (
    SELECT r.flow, r.dimensions, r.dataset, r.dataset_key, r.judge_key, r.judge, r.prompt_set, r.run_id, r.started_at,
           s.candidate, s.dimension AS tag, s.score, s.ci_low, s.ci_high, s.worst_low, s.worst_high,
           s.image_mean, s.prompts, s.n, s.scored,
           CASE WHEN v.best IS NULL THEN s.vs_best ELSE v.change END AS vs_best,
           CASE WHEN v.best IS NULL THEN s.vs_best_low ELSE v.ci_low END AS vs_best_low,
           CASE WHEN v.best IS NULL THEN s.vs_best_high ELSE v.ci_high END AS vs_best_high,
           CASE WHEN v.best IS NULL THEN s.vs_best_n ELSE v.n END AS vs_best_n,
           CASE WHEN v.best IS NULL THEN s.vs_best_of ELSE v."of" END AS vs_best_of,
           CASE WHEN v.best IS NULL THEN s.vs_best_worst_low ELSE v.worst_low END AS vs_best_worst_low,
           CASE WHEN v.best IS NULL THEN s.vs_best_worst_high ELSE v.worst_high END AS vs_best_worst_high,
           CASE WHEN v.best IS NULL THEN s.vs_best_p ELSE v.p END AS vs_best_p,
           CASE WHEN v.best IS NULL THEN s.vs_best_among ELSE v.among END AS vs_best_among, v.best
    FROM scores s JOIN evaluations r USING (run_id) LEFT JOIN versus_best v
        ON (v.flow, v.dataset_key, v.alike) = (r.flow, r.dataset_key, r.protocol_key)
            AND v.candidate = s.candidate AND v.dimension = s.dimension
    WHERE s."grouping" = 'all' AND s.measure = 'score' AND list_contains(image_flows(), r.flow) AND r.stopped IS NULL
    QUALIFY rank() OVER (
        PARTITION BY s.candidate, r.dataset_key, r.judge_key, r.prompt_set, r.flow
        ORDER BY r.started_at DESC, r.run_id DESC) = 1
), others AS (
    SELECT run_id, candidate, dimension AS tag,
           max(score) FILTER (measure = 'aspect_mean') AS aspect_mean, max(score) FILTER (measure = 'good') AS good,
           max(image_mean) FILTER (measure = 'good') AS good_images,
           max(score) FILTER (measure = 'satisfied') AS satisfied
    FROM scores WHERE "grouping" = 'all' GROUP BY ALL
), tags AS (
    SELECT candidate, dataset, tag, score, ci_low, ci_high, worst_low, worst_high, image_mean, aspect_mean,
           score - aspect_mean AS gap, good, good_images, scored / nullif(prompts, 0) AS images_a_prompt,
           min(images_a_prompt) OVER alike IS DISTINCT FROM max(images_a_prompt) OVER alike AS images_differ,
           vs_best, vs_best_low, vs_best_high, vs_best_n, vs_best_of, vs_best_worst_low, vs_best_worst_high,
           vs_best_p, vs_best_among, best,
           satisfied, prompts, n, scored, scored / n AS coverage, NULL::VARCHAR[] AS missing, judge, prompt_set,
           started_at, [run_id] AS runs, [started_at] AS dates, dataset_key, judge_key,
           list_position(image_flows(), flow) AS place, list_position(dimensions, tag) AS place_in_flow, dimensions
    FROM tagged JOIN others USING (run_id, candidate, tag)
    WINDOW alike AS (PARTITION BY tag, dataset_key, judge_key, prompt_set)
), whole AS (
    -- Independent means: their intervals add up as squares (MOVER; Zou and Donner, 2008).
    SELECT candidate, max(dataset) AS dataset, 'overall' AS tag, all_tags(list(dimensions)) AS wanted,
           avg(score) AS score,
           CASE WHEN count(tags.ci_low) = len(wanted)
                THEN avg(score) - sqrt(sum((tags.score - tags.ci_low) ** 2)) / len(wanted) END
               AS ci_low,
           CASE WHEN count(tags.ci_high) = len(wanted)
                THEN avg(score) + sqrt(sum((tags.ci_high - tags.score) ** 2)) / len(wanted) END
               AS ci_high,
           CASE WHEN count(tags.ci_low) = len(wanted) AND count(tags.worst_low) > 0
                THEN avg(coalesce(tags.worst_low, tags.ci_low)) END AS worst_low,
           CASE WHEN count(tags.ci_low) = len(wanted) AND count(tags.worst_high) > 0
                THEN avg(coalesce(tags.worst_high, tags.ci_high)) END AS worst_high,
           avg(image_mean) AS image_mean,
           CASE WHEN count(aspect_mean) = len(wanted) THEN avg(aspect_mean) END AS aspect_mean,
           CASE WHEN count(gap) = len(wanted) THEN avg(gap) END AS gap, avg(good) AS good,
           avg(good_images) AS good_images, sum(scored) / nullif(sum(prompts), 0) AS images_a_prompt,
           bool_or(images_differ) AS images_differ,
           CASE WHEN count(satisfied) = len(wanted) THEN avg(satisfied) END AS satisfied, sum(prompts)::BIGINT AS prompts,
           sum(n)::BIGINT AS n, sum(scored)::BIGINT AS scored, sum(scored) / sum(n) AS coverage,
           list_filter(wanted, lambda one: NOT list_contains(
               coalesce(list(tag) FILTER (tags.score IS NOT NULL), []), one)) AS missing,
           max(judge) AS judge, prompt_set, max(started_at) AS started_at,
           list_sort(list_distinct(flatten(list(runs)))) AS runs,
           list_sort(list_distinct(flatten(list(dates)))) AS dates, dataset_key, judge_key
    FROM tags GROUP BY candidate, prompt_set, dataset_key, judge_key
), beside AS (
    SELECT candidate AS whose, runs AS of_runs, dataset_key AS of_dataset, alike, best, change AS vs_best,
           ci_low AS vs_best_low, ci_high AS vs_best_high, n AS vs_best_n,
           "of" AS vs_best_of, worst_low AS vs_best_worst_low, worst_high AS vs_best_worst_high,
           p AS vs_best_p, among AS vs_best_among
    FROM versus_best WHERE flow = ''
)
SELECT * EXCLUDE (place, place_in_flow) FROM (
SELECT * EXCLUDE (dimensions) FROM tags
UNION ALL BY NAME
SELECT whole.* EXCLUDE (wanted) REPLACE (
    CASE WHEN len(missing) = 0 THEN score END AS score, CASE WHEN len(missing) = 0 THEN ci_low END AS ci_low,
    CASE WHEN len(missing) = 0 THEN ci_high END AS ci_high,
    CASE WHEN len(missing) = 0 THEN worst_low END AS worst_low,
    CASE WHEN len(missing) = 0 THEN worst_high END AS worst_high,
    CASE WHEN len(missing) = 0 THEN image_mean END AS image_mean,
    CASE WHEN len(missing) = 0 THEN aspect_mean END AS aspect_mean, CASE WHEN len(missing) = 0 THEN gap END AS gap,
    CASE WHEN len(missing) = 0 THEN good END AS good,
    CASE WHEN len(missing) = 0 THEN good_images END AS good_images,
    CASE WHEN len(missing) = 0 THEN satisfied END AS satisfied),
    vs_best, vs_best_low, vs_best_high, vs_best_n, vs_best_of, vs_best_worst_low, vs_best_worst_high,
    vs_best_p, vs_best_among, best, wanted AS tags
FROM whole LEFT JOIN beside ON whose = candidate AND of_runs = runs AND of_dataset = dataset_key
        AND alike = judge_key || ' ' || prompt_set)
ORDER BY dataset, judge, prompt_set, dataset_key, judge_key, place, place_in_flow, score DESC, candidate;
COMMENT ON VIEW t2i_leaderboard IS
    'Scores of images by candidate and tag, all flows joined. Joined from the newest run of each flow with equal '
    'dataset_key, judge_key and prompt_set; no GenEval score, for that is a detector''s.';
-- tag: Tag of the prompts, or overall: the mean of the means of all tags.
-- score: Mean over prompts of the judge's overall scores, 0-10. NULL: tags are missing, see missing.
-- ci_low: Lower end of the 95% interval. NULL: too few prompts, or missing tags: see prompts.
-- ci_high: Upper end of the 95% interval. NULL: too few prompts, or missing tags: see prompts.
-- worst_low: Lower end whatever the missing scores were; NULL from 97% coverage on. Overall: the mean over the tags.
-- worst_high: Upper end whatever the missing scores were; NULL from 97% coverage on. Overall: the mean over the tags.
-- image_mean: Mean over images. NULL: see missing.
-- aspect_mean: Mean of the aspects, over prompts. NULL: see missing, or a tag has no aspect that applies.
-- gap: score minus aspect_mean. NULL: as there.
-- good: Share of prompts with an image at or above the threshold; it grows with images a prompt. NULL: see missing.
-- good_images: Share of images at or above the threshold. NULL: see missing.
-- images_a_prompt: Scored images a prompt.
-- images_differ: True if candidates beside it have another number of images a prompt.
-- satisfied: Mean over prompts of the share of images that show what was asked for. NULL: the prompt set does not ask that, or see missing.
-- missing: Tags that no run has, or that have no score; NULL in the row of a tag.
-- started_at: Start of the run, UTC; overall: of the newest of them.
-- runs: Runs that the row is joined from (evaluations.run_id).
-- dates: Starts of these runs, UTC.
-- tags: Tags that the overall consists of: GenEval's six, and those that the prompt set adds.
-- best: Candidate that vs_best compares with: of the run, of the newest runs that were judged alike, or overall.
