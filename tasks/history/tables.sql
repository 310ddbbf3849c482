-- The tables of the history, as they are loaded from ledgers. When anything in this folder's SQL changes, a history
-- made before is made anew from the ledgers (`jury store rebuild`).
--
-- A column named in braces has its type and comment from the records of its table (columns.py). It bears the name of
-- their key, so that rows are loaded by name. A new type of such a field changes no SQL: raise the number of this layout
-- then, 1. Defined and commented here are the columns that come from no record. There are no indexes: a run is deleted
-- and inserted whole. Queries quote names that SQL reserves, such as "order".

CREATE TABLE runs (
    {run_id, evaluation_id, shard, shards, flow},
    status VARCHAR NOT NULL CHECK (status IN ('finished', 'unfinished', 'waiting', 'quote')),
    {started_at, finished_at, seconds, version, prefect_run_id, scheduled, made_for, dataset, dataset_key,
    series_key, candidates, samples, prompt_set, prompts, dimensions, judge, endpoint, anchors_key, resume_key, protocol_key},
    judge_key VARCHAR,
    {protocol, parameters, spending_limit, calls, control_calls, reused},
    replies_from MAP(VARCHAR, BIGINT),
    {judgments, outcomes, ledger_rows, cost, unpriced, limits, stopped, warnings, revision NOT NULL,
    removed_cost NOT NULL},
    ledger_bytes BIGINT NOT NULL,
    {schema NOT NULL}
);
COMMENT ON TABLE runs IS 'Runs: processes that judged one dataset each. All times in the history are UTC.';
COMMENT ON COLUMN runs.status IS 'finished; waiting: for its batches; unfinished: still running, or ended without finishing; or quote: a few samples, judged for a quote.';
COMMENT ON COLUMN runs.judge_key IS
    'protocol_key without the prompts: equal for runs of several flows by one judge in one way. NULL while unfinished.';
COMMENT ON COLUMN runs.replies_from IS
    'Ok replies about samples, by the run that asked for them: this one, or one that they were taken over from.';
COMMENT ON COLUMN runs.ledger_bytes IS 'Size of the ledger when it was loaded; another size means more to load.';

CREATE TABLE judgments (
    {run_id, flow, sample_id, candidate, control, dimension, order, vote, attempt},
    last_attempt BOOLEAN NOT NULL,
    {status, verdict, scores, seen, reasoning, raw, error, finish_reason, rung, recovery, key, prompt_sha256,
    text_sha256, pictures, judge_asked, judge_answered, system_fingerprint, endpoint, tokens_in, tokens_out,
    tokens_cached, tokens_written, tokens_pictures, tokens_reasoning, service_tier, price, price_source, estimated,
    saved_by_reuse, saved_by_service_tier, saved_by_cache, seconds, not_sent, http_retries, waits, waited_seconds,
    judged_at, reused_from, schema NOT NULL}
);
COMMENT ON TABLE judgments IS
    'Replies to calls, or what came instead, every attempt. Those of unfinished runs are in it, too.';
COMMENT ON COLUMN judgments.last_attempt IS 'Whether this is the last attempt of its call: the one that counts.';

CREATE TABLE outcomes (
    {run_id, flow, sample_id, candidate, category, difficulty, tag, prompt_id, prompt, status, overall, score,
    score_scale, aspects, aspect_mean, satisfied, pivotal, tier, tier_path, dimensions, caption, pictures, problem,
    notes, carried_from, injected, caught, decided_at, schema NOT NULL}
);
COMMENT ON TABLE outcomes IS 'Outcomes by run, sample and candidate. Those of unfinished runs are in it, too.';

CREATE TABLE controls (
    run_id VARCHAR NOT NULL,
    {flow, candidate, sample_id, control, measure, status, overall, score, dimensions, real_overall, real_score,
    failed, questions, answered, failures}
);
COMMENT ON TABLE controls IS
    'Control samples, which show whether the judge looks. They enter no score; the view control_rates counts them.';
COMMENT ON COLUMN controls.run_id IS 'Run that the row belongs to.';

CREATE TABLE anchor_outcomes (
    run_id VARCHAR NOT NULL,
    {flow, candidate, sample_id, category, tag, status, score, dimensions}
);
COMMENT ON TABLE anchor_outcomes IS
    'Outcomes of anchors, the frozen samples of scheduled runs. They show whether the judge changed, and enter no '
    'score; the view anchors sums them up.';
COMMENT ON COLUMN anchor_outcomes.run_id IS 'Run that the row belongs to.';

CREATE TABLE aspect_scores (
    {run_id, flow, candidate, sample_id},
    tag VARCHAR NOT NULL,
    {vote, aspect, score, explanation}
);
COMMENT ON TABLE aspect_scores IS
    'Scores of images by aspect and vote, overall_score among them. Those of unfinished runs are in it, too.';
COMMENT ON COLUMN aspect_scores.tag IS 'Tag of its prompt.';

CREATE TABLE scores (
    run_id VARCHAR NOT NULL,
    {candidate, dimension, measure NOT NULL, grouping NOT NULL, group_name NOT NULL, n, scored, model_wins,
    human_wins, both_good, both_bad, mixed, mixed_votes, ties, forfeits, carried, prompts, score, image_mean,
    ci_low, ci_high, method, worst_low, worst_high, coverage, vs_best, vs_best_low, vs_best_high, vs_best_n,
    vs_best_of, vs_best_worst_low, vs_best_worst_high, vs_best_p, vs_best_among}
);
COMMENT ON TABLE scores IS
    'Scores of runs, with counts and 95% intervals. By candidate, dimension or tag, measure and group of samples, of '
    'unfinished runs, too; views show those of evaluations alone.';
COMMENT ON COLUMN scores.run_id IS 'Run that the row belongs to; of shards, their evaluation (evaluations.run_id).';

CREATE TABLE rates (
    run_id VARCHAR NOT NULL,
    {candidate, dimension, measure, n, value NOT NULL, ci_low, ci_high, method}
);
COMMENT ON TABLE rates IS
    'How far the judge agrees with itself in runs. A row a candidate, dimension and measure, with its 95% interval; '
    'also what the outcomes hang on. Unfinished runs have rows, too. Calls that were not made have none.';
COMMENT ON COLUMN rates.run_id IS 'Run that the row belongs to; of shards, their evaluation (evaluations.run_id).';

CREATE TABLE pictures (
    {source_sha256, format, mode, width, height, bytes, sent_sha256, sent_format, sent_width, sent_height,
    sent_bytes, changes NOT NULL},
    picture_path VARCHAR NOT NULL
);
COMMENT ON TABLE pictures IS 'Judged pictures, in each form in which they were sent.';
COMMENT ON COLUMN pictures.picture_path IS 'File of the thumbnail, relative to the store.';

CREATE TABLE labels (
    {name, flow, candidate, sample_id, dimension NOT NULL, tag NOT NULL, aspect NOT NULL, verdict, score, annotator,
    order NOT NULL, unanswered, comment, pictures, source, source_sha256, imported_at, page NOT NULL,
    of_run NOT NULL, dataset_key NOT NULL, prompts_key NOT NULL, drawn NOT NULL, schema NOT NULL}
);
COMMENT ON TABLE labels IS
    'Labels of samples by people, one row a person and question. They were imported by `jury labels import`.';

CREATE TABLE passports (
    {passport_id, judge, endpoint, line, title, state, items, right_answers, unanswered, pass_mark, chance,
    guessing, found, needed_by, judge_answered, finished_at, edition, seed, calls, seconds, schema NOT NULL}
);
COMMENT ON TABLE passports IS 'Results of `jury judge exam`, by judge and line.';

CREATE TABLE other_calls (
    {calls_id, purpose, asked_by, flow, asked_at, status, judge_asked, judge_answered, endpoint, service_tier,
    tokens_in, tokens_out, tokens_cached, tokens_written, tokens_pictures, tokens_reasoning, price, price_source,
    estimated, saved_by_service_tier, saved_by_cache, seconds, schema NOT NULL}
);
COMMENT ON TABLE other_calls IS
    'Calls that judge no sample: first questions and exams. One row a call; first questions are called probe, exams '
    'passport. The view spend has them beside the judgments.';

CREATE TABLE baselines (
    {restart_id, flow, candidate, restarted_at, schema NOT NULL}
);
COMMENT ON TABLE baselines IS 'Baselines that people began anew, by `jury alarms restart`.';

-- Computed from the outcomes of all nights (derived_tables.py), since a sum over nights that ends and begins again is no SQL.
CREATE TABLE nights (
    run_id VARCHAR NOT NULL,
    flow VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    series_key VARCHAR NOT NULL,
    protocol_key VARCHAR NOT NULL,
    started_at TIMESTAMP NOT NULL,
    baseline VARCHAR NOT NULL,
    night INTEGER NOT NULL,
    phase VARCHAR NOT NULL CHECK (phase IN ('baseline', 'watched', 'left out')),
    scored DOUBLE NOT NULL,
    baseline_score DOUBLE,
    change DOUBLE,
    scale DOUBLE,
    cusum DOUBLE NOT NULL,
    cusum_limit DOUBLE,
    alarm INTEGER,
    since INTEGER,
    left_out INTEGER NOT NULL
);
COMMENT ON TABLE nights IS
    'Scheduled evaluations against their baseline, by candidate. A row is an evaluation that measured something. The '
    'baseline is that of its series: the nights of equal flow, candidate, series_key and protocol_key. The view '
    'alarms lists the drops.';
COMMENT ON COLUMN nights.run_id IS 'The evaluation (evaluations.run_id).';
COMMENT ON COLUMN nights.flow IS 'Flow of the evaluation.';
COMMENT ON COLUMN nights.candidate IS 'System whose figures or images were judged.';
COMMENT ON COLUMN nights.series_key IS 'Equal in a series.';
COMMENT ON COLUMN nights.protocol_key IS 'Equal in a series.';
COMMENT ON COLUMN nights.started_at IS 'When the evaluation began, UTC: the order of the nights.';
COMMENT ON COLUMN nights.baseline IS 'Evaluation of the first night of its baseline.';
COMMENT ON COLUMN nights.night IS 'Which night since the beginning of its baseline, from 1.';
COMMENT ON COLUMN nights.phase IS
    'baseline: one of the 14 nights that all later ones are measured by; watched: measured by them; left out: less than '
    '80% was scored.';
COMMENT ON COLUMN nights.scored IS 'Share of the samples (images, checks) of its series that have a score.';
COMMENT ON COLUMN nights.baseline_score IS 'Mean score of the baseline; NULL while it is not whole.';
COMMENT ON COLUMN nights.change IS 'From the baseline, over the samples (prompts) that both have scored.';
COMMENT ON COLUMN nights.scale IS 'The larger of the error within runs and the scatter of nights without a drop.';
COMMENT ON COLUMN nights.cusum IS
    'By how much the nights lie below the baseline, in scales, each less 0.5 (CUSUM); 0 before the baseline is whole.';
COMMENT ON COLUMN nights.cusum_limit IS 'Above it a drop is raised: 7.5, more for a sum over more than three nights.';
COMMENT ON COLUMN nights.alarm IS 'Night (column night) that raised the drop which is open; NULL: none is.';
COMMENT ON COLUMN nights.since IS 'Night with which that drop began.';
COMMENT ON COLUMN nights.left_out IS
    'Questions of the night that other nights of its series lack, since they were edited: no night is scored by them.';

CREATE TABLE anchor_nights (
    run_id VARCHAR NOT NULL,
    flow VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    anchors_key VARCHAR NOT NULL,
    started_at TIMESTAMP NOT NULL,
    night INTEGER NOT NULL,
    anchor_change DOUBLE,
    candidate_change DOUBLE,
    judge_since TIMESTAMP,
    moved VARCHAR,
    moved_since TIMESTAMP,
    moved_nights INTEGER,
    judge_shift DOUBLE,
    judge_low DOUBLE,
    judge_high DOUBLE,
    candidate_shift DOUBLE,
    candidate_low DOUBLE,
    candidate_high DOUBLE
);
COMMENT ON TABLE anchor_nights IS
    'Scheduled evaluations with anchors, by candidate. They show where the anchors stand against their baseline, and '
    'whether judge or candidate moved, while an alarm is open. The view anchors has it beside the scores.';
COMMENT ON COLUMN anchor_nights.run_id IS 'The evaluation (evaluations.run_id).';
COMMENT ON COLUMN anchor_nights.flow IS 'Flow of the evaluation.';
COMMENT ON COLUMN anchor_nights.candidate IS 'System whose figures or images were judged beside the anchors.';
COMMENT ON COLUMN anchor_nights.anchors_key IS 'Which frozen set of anchors was judged; equal in a series.';
COMMENT ON COLUMN anchor_nights.started_at IS 'When the evaluation began, UTC.';
COMMENT ON COLUMN anchor_nights.night IS 'Which night of its series, from 1.';
COMMENT ON COLUMN anchor_nights.anchor_change IS 'From the baseline, over the anchors that both have scored.';
COMMENT ON COLUMN anchor_nights.candidate_change IS 'Of the candidate likewise, in the same quantity.';
COMMENT ON COLUMN anchor_nights.judge_since IS
    'Night with which a shift of the anchors began that their own alarm has found; NULL: it has found none.';
COMMENT ON COLUMN anchor_nights.moved IS
    'judge moved, candidate moved, both or cannot tell, since moved_since; NULL while neither the score nor the anchors '
    'have an open alarm.';
COMMENT ON COLUMN anchor_nights.moved_since IS 'First night of the drop of the score, else of the shift of the anchors.';
COMMENT ON COLUMN anchor_nights.moved_nights IS 'Nights with anchors since then.';
COMMENT ON COLUMN anchor_nights.judge_shift IS
    'Mean change of the anchors over those nights; NULL where fewer than 14 nights with anchors lie before.';
COMMENT ON COLUMN anchor_nights.judge_low IS 'Lower end of its 95% interval.';
COMMENT ON COLUMN anchor_nights.judge_high IS 'Upper end of its 95% interval.';
COMMENT ON COLUMN anchor_nights.candidate_shift IS 'Mean change of the candidate less that of the anchors.';
COMMENT ON COLUMN anchor_nights.candidate_low IS 'Lower end of its 95% interval.';
COMMENT ON COLUMN anchor_nights.candidate_high IS 'Upper end of its 95% interval.';

CREATE TABLE versus_best (
    flow VARCHAR NOT NULL,
    dataset_key VARCHAR NOT NULL,
    alike VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    runs VARCHAR[] NOT NULL,
    best VARCHAR NOT NULL,
    dimension VARCHAR NOT NULL,
    n BIGINT,
    change DOUBLE,
    ci_low DOUBLE,
    ci_high DOUBLE,
    "of" BIGINT,
    worst_low DOUBLE,
    worst_high DOUBLE,
    p DOUBLE,
    among BIGINT
);
COMMENT ON TABLE versus_best IS
    'Candidates of different runs, judged alike, beside the best. Paired differences of the newest measured runs, on '
    'the samples (prompts) that both scored. leaderboard and t2i_leaderboard have them as vs_best.';
COMMENT ON COLUMN versus_best.flow IS 'Flow; empty: all tags of generated images together, over four flows.';
COMMENT ON COLUMN versus_best.dataset_key IS 'Equal for all that stand beside each other.';
COMMENT ON COLUMN versus_best.alike IS 'protocol_key; of all tags together judge_key and prompt_set.';
COMMENT ON COLUMN versus_best.candidate IS 'System whose figures or images were judged.';
COMMENT ON COLUMN versus_best.runs IS 'Its newest measured evaluation; of all tags together the newest complete one of each flow.';
COMMENT ON COLUMN versus_best.best IS 'The candidate with the highest score.';
COMMENT ON COLUMN versus_best.dimension IS 'Dimension or tag; overall.';
COMMENT ON COLUMN versus_best.n IS 'Pairs; NULL, like all that follows, for the best one itself.';
COMMENT ON COLUMN versus_best.change IS 'Score minus that of the best.';
COMMENT ON COLUMN versus_best.ci_low IS 'Lower end of its 95% interval, which holds for all pairs of the candidates together.';
COMMENT ON COLUMN versus_best.ci_high IS 'Upper end of that interval.';
COMMENT ON COLUMN versus_best."of" IS 'Pairs that there would be if no score were missing.';
COMMENT ON COLUMN versus_best.worst_low IS 'As vs_best_worst_low of scores; NULL for all tags together.';
COMMENT ON COLUMN versus_best.worst_high IS 'As vs_best_worst_high of scores; NULL for all tags together.';
COMMENT ON COLUMN versus_best.p IS 'As vs_best_p of scores; NULL for all tags together.';
COMMENT ON COLUMN versus_best.among IS 'Candidates that the best was chosen among.';

CREATE TABLE bridges (
    {bridge_id, made_at, flow, candidate, dimension, old_judge, new_judge, n, old_score, new_score, shift, ci_low,
    ci_high, margin, decision, enough, of, judged, agreement, kappa, confusion, highest, dataset, dataset_key,
    prompt_set, old_run, new_run, old_protocol_key, new_protocol_key, schema NOT NULL}
);
COMMENT ON TABLE bridges IS
    'Whether a history may be continued with another judge. With what offset, too: one row a bridge, candidate and '
    'dimension, as `jury judge bridge` made it.';

-- Computed from outcomes and labels (derived_tables.py), since an estimate by cross-fitting is no SQL.
CREATE TABLE corrections (
    {run_id, candidate, dimension, corrected, corrected_low, corrected_high, bounds_low, bounds_high, weight,
    labels, people, cannot_tell, agreed, agreed_low, agreed_high, kappa, kappa_low, kappa_high, shared,
    people_agreed, people_agreed_low, people_agreed_high, people_kappa, people_kappa_low, people_kappa_high, names,
    why, stamp}
);
COMMENT ON TABLE corrections IS
    'Corrections of the scores of finished runs by people''s labels. A row an evaluation, candidate and dimension or '
    'tag; the view corrected has the raw scores beside them.';
