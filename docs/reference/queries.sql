-- alarms: Which drops are open?
SELECT flow, candidate, since_at, change, most_in FROM alarms WHERE state = 'open'
-- anchors: How did the anchors move beside the candidate?
SELECT started_at, candidate, anchor_score, candidate_score, moved FROM anchors ORDER BY started_at
-- best_images: Which image is the best of each prompt?
SELECT candidate, tag, prompt, sample_id, score FROM best_images WHERE flow <> 'facts' ORDER BY score DESC LIMIT 10
-- by_aspect: Which aspects are the weakest?
SELECT candidate, tag, aspect, score FROM by_aspect WHERE flow <> 'facts' ORDER BY score LIMIT 10
-- by_category: Which categories of figures are the weakest?
SELECT candidate, category, score, n FROM by_category WHERE dimension = 'overall' ORDER BY score LIMIT 10
-- by_difficulty: Do hard figures score lower?
SELECT candidate, difficulty, score, n FROM by_difficulty WHERE dimension = 'overall' ORDER BY candidate, difficulty
-- by_group: How do all scores of the newest run look?
SELECT candidate, grouping, group_name, dimension, measure, score FROM by_group
WHERE run_id = (SELECT max(run_id) FROM evaluations)
-- changes: Which samples got worse since the run before?
SELECT flow, candidate, sample_id, outcome_before, outcome, change FROM changes WHERE change < 0 LIMIT 20
-- control_rates: Which judges failed control samples?
SELECT started_at, judge, measure, rate, n FROM control_rates WHERE rate > 0.1
-- corrected: How far do people's labels move a score?
SELECT candidate, dimension, score, corrected, corrected_low, corrected_high, labels FROM corrected
-- cost: How much did each run cost?
SELECT started_at, flow, judge, calls, reused, price FROM cost ORDER BY started_at DESC LIMIT 10
-- coverage: Which runs lack scores?
SELECT started_at, flow, candidate, scored, n, stopped FROM coverage WHERE share < 1 ORDER BY started_at DESC
-- disagreements: Which figures win on one dimension and lose on another?
SELECT candidate, sample_id, model_dimensions, human_dimensions FROM disagreements LIMIT 10
-- evaluations: Which runs measured something new?
SELECT started_at, flow, dataset, replies, anew FROM evaluations WHERE measured ORDER BY started_at DESC LIMIT 10
-- failures: Which faults are the most frequent?
SELECT kind, status, count(*) AS times FROM failures GROUP BY ALL ORDER BY times DESC
-- judge_versions: When did the judge's model or fingerprint change?
SELECT started_at, flow, judge_answered, system_fingerprint FROM judge_versions WHERE is_new
-- judgment_attempts: Which calls took more than one attempt?
SELECT run_id, sample_id, dimension, status, error FROM judgment_attempts WHERE attempt > 1 LIMIT 10
-- leaderboard: Which candidate leads?
SELECT flow, candidate, score, ci_low, ci_high, vs_best FROM leaderboard
WHERE dimension = 'overall' ORDER BY started_at DESC, score DESC LIMIT 10
-- picture_contract: Do Model and Human pictures differ in form?
SELECT candidate, side, formats, megapixels, reencoded FROM picture_contract ORDER BY started_at DESC LIMIT 4
-- ratings: How do all sources rate one sample?
SELECT source, question, verdict, score, annotator FROM ratings WHERE sample_id = 'test_0' LIMIT 10
-- reliability: How often do orders and votes disagree?
SELECT started_at, candidate, dimension, measure, value, n FROM reliability ORDER BY started_at DESC LIMIT 10
-- samples: Which samples score lowest, and where are their pictures?
SELECT flow, candidate, sample_id, score, picture FROM samples WHERE score IS NOT NULL ORDER BY score / score_scale LIMIT 10
-- shard_runs: Which runs make up an evaluation?
SELECT evaluation_id, count(*) AS runs FROM shard_runs GROUP BY ALL ORDER BY runs DESC LIMIT 5
-- spend: How much did each day cost?
SELECT day, purpose, sum(calls) AS calls, sum(price) AS price FROM spend GROUP BY ALL ORDER BY day DESC
-- t2i_leaderboard: How do the image models compare over all tags?
SELECT candidate, tag, score, ci_low, ci_high, vs_best FROM t2i_leaderboard ORDER BY tag, score DESC
-- trend: How did the overall score develop?
SELECT started_at, candidate, score, break_reason FROM trend WHERE dimension = 'overall' ORDER BY started_at
-- verdicts: Which verdicts depend on the order?
SELECT run_id, sample_id, dimension, human_first, model_first FROM verdicts WHERE order_flip LIMIT 10
-- anchor_nights: Where are the anchors, night by night?
SELECT started_at, candidate, night, anchor_change, candidate_change FROM anchor_nights ORDER BY started_at
-- anchor_outcomes: Which anchors score lowest?
SELECT sample_id, avg(score) AS score FROM anchor_outcomes GROUP BY ALL ORDER BY score LIMIT 10
-- aspect_scores: How does the judge explain its lowest aspect scores?
SELECT candidate, sample_id, aspect, score, explanation FROM aspect_scores ORDER BY score LIMIT 10
-- baselines: When did people begin a new baseline?
SELECT flow, candidate, restarted_at FROM baselines ORDER BY restarted_at
-- bridges: May the history be continued with another judge?
SELECT made_at, candidate, dimension, shift, ci_low, ci_high, decision FROM bridges ORDER BY made_at DESC
-- controls: Which control samples did the judge fail?
SELECT flow, sample_id, control, failed FROM controls WHERE failed > 0 LIMIT 10
-- corrections: How many labels has each corrected score?
SELECT run_id, candidate, dimension, labels, people, corrected FROM corrections
-- judgments: How does the judge explain its verdicts on one figure?
SELECT dimension, verdict, reasoning FROM judgments WHERE sample_id = 'test_0' AND verdict IS NOT NULL LIMIT 4
-- labels: Who labelled how much?
SELECT name, annotator, count(*) AS answers FROM labels GROUP BY ALL
-- nights: Where is each series?
SELECT flow, candidate, started_at, phase, change, cusum, cusum_limit FROM nights ORDER BY started_at DESC LIMIT 10
-- other_calls: How much did calls cost that judge no sample?
SELECT purpose, count(*) AS calls, sum(price) AS price FROM other_calls GROUP BY ALL
-- outcomes: Which samples did the candidate lose?
SELECT flow, candidate, sample_id, tier_path FROM outcomes WHERE overall = 'Human' LIMIT 10
-- passports: Which lines of its exam did a judge fail?
SELECT judge, title, right_answers, items, pass_mark FROM passports WHERE right_answers < pass_mark
-- pictures: Where is the thumbnail of each picture?
SELECT format, width, height, picture_path FROM pictures ORDER BY bytes DESC LIMIT 5
-- rates: How far does the judge agree with itself?
SELECT candidate, dimension, measure, value, ci_low, ci_high FROM rates LIMIT 10
-- runs: Which runs have not ended?
SELECT run_id, flow, status, started_at FROM runs WHERE status <> 'finished'
-- scores: Which scores have wide bounds?
SELECT candidate, dimension, score, worst_low, worst_high FROM scores WHERE worst_high - worst_low > 10 LIMIT 10
-- versus_best: Who is behind the best, over runs of their own?
SELECT flow, candidate, best, change, ci_low, ci_high FROM versus_best WHERE candidate <> best
