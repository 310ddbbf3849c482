-- The tables of the history, as they are loaded from ledgers. When anything in this folder's SQL changes, a history
-- made before is made anew from the ledgers (`jury store rebuild`).
--
-- Columns bear the names of the records' keys, so that rows are loaded by name, and hold what the docstrings of those
-- fields say (comments.py); commented here are the columns that come from no record. There are no indexes: a run is
-- deleted and inserted whole. Names that SQL reserves are quoted, "order" in queries too.

CREATE TABLE runs (
    run_id VARCHAR NOT NULL,
    evaluation_id VARCHAR NOT NULL,
    shard INTEGER,
    shards INTEGER,
    flow VARCHAR NOT NULL,
    status VARCHAR NOT NULL CHECK (status IN ('finished', 'unfinished', 'waiting', 'quote')),
    started_at TIMESTAMP NOT NULL,
    finished_at TIMESTAMP,
    seconds DOUBLE,
    version VARCHAR NOT NULL,
    prefect_run_id VARCHAR NOT NULL,
    scheduled BOOLEAN NOT NULL,
    made_for VARCHAR,
    dataset VARCHAR NOT NULL,
    dataset_key VARCHAR NOT NULL,
    candidates VARCHAR[] NOT NULL,
    samples BIGINT NOT NULL,
    prompt_set VARCHAR NOT NULL,
    prompts MAP(VARCHAR, VARCHAR) NOT NULL,
    dimensions VARCHAR[] NOT NULL,
    judge VARCHAR NOT NULL,
    endpoint VARCHAR NOT NULL,
    anchors_key VARCHAR,
    resume_key VARCHAR NOT NULL,
    protocol_key VARCHAR,
    judge_key VARCHAR,
    protocol MAP(VARCHAR, VARCHAR) NOT NULL,
    parameters JSON NOT NULL,
    spending_limit DOUBLE,
    calls BIGINT,
    control_calls BIGINT,
    reused BIGINT,
    replies_from MAP(VARCHAR, BIGINT),
    judgments MAP(VARCHAR, BIGINT),
    outcomes MAP(VARCHAR, BIGINT),
    ledger_rows MAP(VARCHAR, BIGINT),
    cost MAP(VARCHAR, DOUBLE),
    unpriced MAP(VARCHAR, BIGINT),
    limits STRUCT(
        calls_in_flight INTEGER, calls_per_second DOUBLE, waits INTEGER, waited_seconds DOUBLE, away_seconds DOUBLE
    ),
    stopped STRUCT(
        budget DOUBLE, "month" VARCHAR, spent DOUBLE, needed DOUBLE, judged BIGINT, samples BIGINT,
        whole MAP(VARCHAR, MAP(VARCHAR, BIGINT))
    ),
    warnings VARCHAR[],
    revision INTEGER NOT NULL,
    removed_cost MAP(VARCHAR, DOUBLE) NOT NULL,
    ledger_bytes BIGINT NOT NULL,
    "schema" INTEGER NOT NULL
);
COMMENT ON TABLE runs IS 'Runs: processes that judged one dataset each. All times in the history are UTC.';
COMMENT ON COLUMN runs.status IS 'finished; waiting: for its batches; unfinished: still running, or ended without finishing; or quote: a few samples, judged for a quote.';
COMMENT ON COLUMN runs.judge_key IS
    'protocol_key without the prompts: equal for runs of several flows by one judge in one way. NULL while unfinished.';
COMMENT ON COLUMN runs.replies_from IS
    'Ok replies about samples, by the run that asked for them: this one, or one that they were taken over from.';
COMMENT ON COLUMN runs.ledger_bytes IS 'Size of the ledger when it was loaded; another size means more to load.';

CREATE TABLE judgments (
    run_id VARCHAR NOT NULL,
    flow VARCHAR NOT NULL,
    sample_id VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    control VARCHAR,
    dimension VARCHAR NOT NULL,
    "order" VARCHAR NOT NULL,
    vote INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    last_attempt BOOLEAN NOT NULL,
    status VARCHAR NOT NULL,
    verdict VARCHAR,
    scores STRUCT(aspect VARCHAR, score DOUBLE, explanation VARCHAR)[],
    seen STRUCT(
        objects STRUCT(name VARCHAR, present BOOLEAN, "count" INTEGER, color VARCHAR)[], relation_holds BOOLEAN
    ),
    reasoning VARCHAR NOT NULL,
    raw VARCHAR NOT NULL,
    error VARCHAR NOT NULL,
    finish_reason VARCHAR NOT NULL,
    rung VARCHAR NOT NULL,
    recovery VARCHAR NOT NULL,
    "key" VARCHAR NOT NULL,
    prompt_sha256 VARCHAR NOT NULL,
    text_sha256 VARCHAR NOT NULL,
    pictures MAP(VARCHAR, STRUCT(
        source_sha256 VARCHAR, sent_sha256 VARCHAR, format VARCHAR, mode VARCHAR, width INTEGER, height INTEGER,
        bytes BIGINT, sent_format VARCHAR, sent_width INTEGER, sent_height INTEGER, sent_bytes BIGINT, changes VARCHAR[]
    )) NOT NULL,
    judge_asked VARCHAR NOT NULL,
    judge_answered VARCHAR NOT NULL,
    system_fingerprint VARCHAR,
    endpoint VARCHAR NOT NULL,
    tokens_in BIGINT NOT NULL,
    tokens_out BIGINT NOT NULL,
    tokens_cached BIGINT NOT NULL,
    tokens_written BIGINT,
    tokens_pictures BIGINT,
    tokens_reasoning BIGINT,
    service_tier VARCHAR,
    price DOUBLE,
    price_source VARCHAR,
    estimated DOUBLE,
    saved_by_reuse DOUBLE,
    saved_by_service_tier DOUBLE,
    saved_by_cache DOUBLE,
    seconds DOUBLE NOT NULL,
    not_sent VARCHAR[],
    http_retries INTEGER NOT NULL,
    waits INTEGER,
    waited_seconds DOUBLE,
    judged_at TIMESTAMP NOT NULL,
    reused_from VARCHAR NOT NULL,
    "schema" INTEGER NOT NULL
);
COMMENT ON TABLE judgments IS
    'Replies to calls, or what came instead, every attempt. Those of unfinished runs are in it, too.';
COMMENT ON COLUMN judgments.last_attempt IS 'Whether this is the last attempt of its call: the one that counts.';

CREATE TABLE outcomes (
    run_id VARCHAR NOT NULL,
    flow VARCHAR NOT NULL,
    sample_id VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    category VARCHAR NOT NULL,
    difficulty VARCHAR NOT NULL,
    tag VARCHAR,
    prompt_id VARCHAR,
    prompt VARCHAR,
    status VARCHAR NOT NULL,
    overall VARCHAR,
    score DOUBLE,
    score_scale DOUBLE NOT NULL,
    aspects STRUCT(aspect VARCHAR, score DOUBLE, explanation VARCHAR)[],
    aspect_mean DOUBLE,
    satisfied BOOLEAN,
    pivotal VARCHAR[],
    tier VARCHAR NOT NULL,
    tier_path VARCHAR NOT NULL,
    dimensions STRUCT(
        dimension VARCHAR, verdict VARCHAR, score DOUBLE, human_first VARCHAR, model_first VARCHAR,
        votes INTEGER, ok_votes INTEGER, order_flip BOOLEAN, reversal BOOLEAN
    )[] NOT NULL,
    caption VARCHAR NOT NULL,
    pictures MAP(VARCHAR, STRUCT(
        source_sha256 VARCHAR, sent_sha256 VARCHAR, format VARCHAR, mode VARCHAR, width INTEGER, height INTEGER,
        bytes BIGINT, sent_format VARCHAR, sent_width INTEGER, sent_height INTEGER, sent_bytes BIGINT, changes VARCHAR[]
    )) NOT NULL,
    problem VARCHAR NOT NULL,
    notes VARCHAR[] NOT NULL,
    carried_from VARCHAR,
    injected VARCHAR NOT NULL,
    caught BOOLEAN,
    decided_at TIMESTAMP NOT NULL,
    "schema" INTEGER NOT NULL
);
COMMENT ON TABLE outcomes IS 'Outcomes by run, sample and candidate. Those of unfinished runs are in it, too.';

CREATE TABLE controls (
    run_id VARCHAR NOT NULL,
    flow VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    sample_id VARCHAR NOT NULL,
    control VARCHAR NOT NULL,
    measure VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    overall VARCHAR,
    score DOUBLE,
    dimensions STRUCT(
        dimension VARCHAR, verdict VARCHAR, score DOUBLE, human_first VARCHAR, model_first VARCHAR,
        votes INTEGER, ok_votes INTEGER, order_flip BOOLEAN, reversal BOOLEAN
    )[] NOT NULL,
    real_overall VARCHAR,
    real_score DOUBLE,
    failed BOOLEAN,
    questions INTEGER NOT NULL,
    answered INTEGER NOT NULL,
    failures DOUBLE NOT NULL
);
COMMENT ON TABLE controls IS
    'Control samples, which show whether the judge looks. They enter no score; the view control_rates counts them.';
COMMENT ON COLUMN controls.run_id IS 'Run that the row belongs to.';

CREATE TABLE anchor_outcomes (
    run_id VARCHAR NOT NULL,
    flow VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    sample_id VARCHAR NOT NULL,
    category VARCHAR NOT NULL,
    tag VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    score DOUBLE,
    dimensions STRUCT(
        dimension VARCHAR, verdict VARCHAR, score DOUBLE, human_first VARCHAR, model_first VARCHAR,
        votes INTEGER, ok_votes INTEGER, order_flip BOOLEAN, reversal BOOLEAN
    )[] NOT NULL
);
COMMENT ON TABLE anchor_outcomes IS
    'Outcomes of anchors, the frozen samples of scheduled runs. They show whether the judge changed, and enter no '
    'score; the view anchors sums them up.';
COMMENT ON COLUMN anchor_outcomes.run_id IS 'Run that the row belongs to.';

CREATE TABLE aspect_scores (
    run_id VARCHAR NOT NULL,
    flow VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    sample_id VARCHAR NOT NULL,
    tag VARCHAR NOT NULL,
    vote INTEGER NOT NULL,
    aspect VARCHAR NOT NULL,
    score DOUBLE,
    explanation VARCHAR NOT NULL
);
COMMENT ON TABLE aspect_scores IS
    'Scores of images by aspect and vote, overall_score among them. Those of unfinished runs are in it, too.';
COMMENT ON COLUMN aspect_scores.tag IS 'Tag of its prompt.';

CREATE TABLE scores (
    run_id VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    dimension VARCHAR NOT NULL,
    measure VARCHAR NOT NULL,
    "grouping" VARCHAR NOT NULL,
    group_name VARCHAR NOT NULL,
    n BIGINT NOT NULL,
    scored BIGINT NOT NULL,
    model_wins BIGINT,
    human_wins BIGINT,
    both_good BIGINT,
    both_bad BIGINT,
    mixed BIGINT,
    mixed_votes BIGINT,
    ties BIGINT,
    forfeits BIGINT,
    carried BIGINT,
    prompts BIGINT,
    score DOUBLE,
    image_mean DOUBLE,
    ci_low DOUBLE,
    ci_high DOUBLE,
    "method" VARCHAR NOT NULL,
    worst_low DOUBLE,
    worst_high DOUBLE,
    coverage DOUBLE NOT NULL,
    vs_best DOUBLE,
    vs_best_low DOUBLE,
    vs_best_high DOUBLE,
    vs_best_n BIGINT,
    vs_best_of BIGINT,
    vs_best_worst_low DOUBLE,
    vs_best_worst_high DOUBLE,
    vs_best_p DOUBLE,
    vs_best_among BIGINT
);
COMMENT ON TABLE scores IS
    'Scores of runs, with counts and 95% intervals. By candidate, dimension or tag, measure and group of samples, of '
    'unfinished runs, too; views show those of evaluations alone.';
COMMENT ON COLUMN scores.run_id IS 'Run that the row belongs to; of shards, their evaluation (evaluations.run_id).';

CREATE TABLE rates (
    run_id VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    dimension VARCHAR NOT NULL,
    measure VARCHAR NOT NULL,
    n BIGINT NOT NULL,
    "value" DOUBLE NOT NULL,
    ci_low DOUBLE,
    ci_high DOUBLE,
    "method" VARCHAR NOT NULL
);
COMMENT ON TABLE rates IS
    'How far the judge agrees with itself in runs. A row a candidate, dimension and measure, with its 95% interval; '
    'also what the outcomes hang on. Unfinished runs have rows, too; what was not asked for has none.';
COMMENT ON COLUMN rates.run_id IS 'Run that the row belongs to; of shards, their evaluation (evaluations.run_id).';

CREATE TABLE pictures (
    source_sha256 VARCHAR NOT NULL,
    format VARCHAR NOT NULL,
    "mode" VARCHAR NOT NULL,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    bytes BIGINT NOT NULL,
    sent_sha256 VARCHAR NOT NULL,
    sent_format VARCHAR NOT NULL,
    sent_width INTEGER NOT NULL,
    sent_height INTEGER NOT NULL,
    sent_bytes BIGINT NOT NULL,
    changes VARCHAR[] NOT NULL,
    picture_path VARCHAR NOT NULL
);
COMMENT ON TABLE pictures IS 'Judged pictures, in each form in which they were sent.';
COMMENT ON COLUMN pictures.picture_path IS 'File of the thumbnail, relative to the store.';

CREATE TABLE labels (
    name VARCHAR NOT NULL,
    flow VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    sample_id VARCHAR NOT NULL,
    dimension VARCHAR NOT NULL,
    tag VARCHAR NOT NULL,
    aspect VARCHAR NOT NULL,
    verdict VARCHAR,
    score DOUBLE,
    annotator VARCHAR NOT NULL,
    "order" VARCHAR NOT NULL,
    unanswered VARCHAR,
    comment VARCHAR,
    pictures MAP(VARCHAR, VARCHAR),
    source VARCHAR NOT NULL,
    source_sha256 VARCHAR NOT NULL,
    imported_at TIMESTAMP NOT NULL,
    page VARCHAR NOT NULL,
    of_run VARCHAR NOT NULL,
    dataset_key VARCHAR NOT NULL,
    prompts_key VARCHAR NOT NULL,
    drawn VARCHAR NOT NULL,
    "schema" INTEGER NOT NULL
);
COMMENT ON TABLE labels IS
    'Labels of samples by people, one row a person and question. They were imported by `jury labels import`.';

CREATE TABLE passports (
    passport_id VARCHAR NOT NULL,
    judge VARCHAR NOT NULL,
    endpoint VARCHAR NOT NULL,
    line VARCHAR NOT NULL,
    title VARCHAR NOT NULL,
    state VARCHAR NOT NULL,
    items INTEGER NOT NULL,
    right_answers INTEGER NOT NULL,
    unanswered INTEGER NOT NULL,
    pass_mark INTEGER NOT NULL,
    chance DOUBLE NOT NULL,
    guessing DOUBLE NOT NULL,
    found VARCHAR NOT NULL,
    needed_by VARCHAR[] NOT NULL,
    judge_answered VARCHAR NOT NULL,
    finished_at TIMESTAMP NOT NULL,
    edition VARCHAR NOT NULL,
    seed BIGINT NOT NULL,
    calls INTEGER NOT NULL,
    seconds DOUBLE NOT NULL,
    "schema" INTEGER NOT NULL
);
COMMENT ON TABLE passports IS 'Results of `jury judge exam`, by judge and line.';

CREATE TABLE other_calls (
    calls_id VARCHAR NOT NULL,
    purpose VARCHAR NOT NULL,
    asked_by VARCHAR NOT NULL,
    flow VARCHAR NOT NULL,
    asked_at TIMESTAMP NOT NULL,
    status VARCHAR NOT NULL,
    judge_asked VARCHAR NOT NULL,
    judge_answered VARCHAR NOT NULL,
    endpoint VARCHAR NOT NULL,
    service_tier VARCHAR NOT NULL,
    tokens_in BIGINT NOT NULL,
    tokens_out BIGINT NOT NULL,
    tokens_cached BIGINT NOT NULL,
    tokens_written BIGINT NOT NULL,
    tokens_pictures BIGINT NOT NULL,
    tokens_reasoning BIGINT NOT NULL,
    price DOUBLE,
    price_source VARCHAR NOT NULL,
    estimated DOUBLE,
    saved_by_service_tier DOUBLE,
    saved_by_cache DOUBLE,
    seconds DOUBLE NOT NULL,
    "schema" INTEGER NOT NULL
);
COMMENT ON TABLE other_calls IS
    'Calls that judge no sample: first questions and exams. One row a call; first questions are called probe, exams '
    'passport. The view spend has them beside the judgments.';

CREATE TABLE baselines (
    restart_id VARCHAR NOT NULL,
    flow VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    restarted_at TIMESTAMP NOT NULL,
    "schema" INTEGER NOT NULL
);
COMMENT ON TABLE baselines IS 'Baselines that people began anew, by `jury alarms restart`.';

-- Computed from the outcomes of all nights (derived_tables.py), since a sum over nights that ends and begins again is no SQL.
CREATE TABLE nights (
    run_id VARCHAR NOT NULL,
    flow VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    dataset_key VARCHAR NOT NULL,
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
    since INTEGER
);
COMMENT ON TABLE nights IS
    'Scheduled evaluations against their baseline, by candidate. A row is an evaluation that measured something. The '
    'baseline is that of its series: the nights of equal flow, candidate, dataset_key and protocol_key. The view '
    'alarms has the drops.';
COMMENT ON COLUMN nights.run_id IS 'The evaluation (evaluations.run_id).';
COMMENT ON COLUMN nights.flow IS 'Flow of the evaluation.';
COMMENT ON COLUMN nights.candidate IS 'System whose figures or images were judged.';
COMMENT ON COLUMN nights.dataset_key IS 'Equal in a series.';
COMMENT ON COLUMN nights.protocol_key IS 'Equal in a series.';
COMMENT ON COLUMN nights.started_at IS 'When the evaluation began, UTC: the order of the nights.';
COMMENT ON COLUMN nights.baseline IS 'Evaluation of the first night of its baseline.';
COMMENT ON COLUMN nights.night IS 'Which night since the beginning of its baseline, from 1.';
COMMENT ON COLUMN nights.phase IS
    'baseline: one of the 14 nights that all later ones are measured by; watched: measured by them; left out: less than '
    '80% was scored.';
COMMENT ON COLUMN nights.scored IS 'Share of the samples (prompts) of its series that have a score.';
COMMENT ON COLUMN nights.baseline_score IS 'Mean score of the baseline; NULL while it is not whole.';
COMMENT ON COLUMN nights.change IS 'From the baseline, over the samples (prompts) that both have scored.';
COMMENT ON COLUMN nights.scale IS 'The larger of the error within runs and the scatter of nights without a drop.';
COMMENT ON COLUMN nights.cusum IS
    'By how much the nights lie below the baseline, in scales, each less 0.5 (CUSUM); 0 before the baseline is whole.';
COMMENT ON COLUMN nights.cusum_limit IS 'Above it a drop is raised: 7.5, more for a sum over more than three nights.';
COMMENT ON COLUMN nights.alarm IS 'Night (column night) that raised the drop which is open; NULL: none is.';
COMMENT ON COLUMN nights.since IS 'Night with which that drop began.';

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
COMMENT ON COLUMN versus_best.runs IS 'Its newest measured evaluation; of all tags together one of each flow.';
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
    bridge_id VARCHAR NOT NULL,
    made_at TIMESTAMP NOT NULL,
    flow VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    dimension VARCHAR NOT NULL,
    old_judge VARCHAR NOT NULL,
    new_judge VARCHAR NOT NULL,
    n BIGINT NOT NULL,
    old_score DOUBLE,
    new_score DOUBLE,
    shift DOUBLE,
    ci_low DOUBLE,
    ci_high DOUBLE,
    margin DOUBLE NOT NULL,
    decision VARCHAR NOT NULL,
    enough BIGINT,
    judged BIGINT NOT NULL,
    agreement DOUBLE,
    kappa DOUBLE,
    confusion MAP(VARCHAR, BIGINT) NOT NULL,
    highest DOUBLE NOT NULL,
    dataset VARCHAR NOT NULL,
    dataset_key VARCHAR NOT NULL,
    prompt_set VARCHAR NOT NULL,
    old_run VARCHAR NOT NULL,
    new_run VARCHAR NOT NULL,
    old_protocol_key VARCHAR NOT NULL,
    new_protocol_key VARCHAR NOT NULL,
    "schema" INTEGER NOT NULL
);
COMMENT ON TABLE bridges IS
    'Whether a history may be continued with another judge. With what offset, too: one row a bridge, candidate and '
    'dimension, as `jury judge bridge` made it.';

-- Computed from outcomes and labels (derived_tables.py), since an estimate by cross-fitting is no SQL.
CREATE TABLE corrections (
    run_id VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    dimension VARCHAR NOT NULL,
    corrected DOUBLE,
    corrected_low DOUBLE,
    corrected_high DOUBLE,
    bounds_low DOUBLE,
    bounds_high DOUBLE,
    weight DOUBLE,
    labels BIGINT NOT NULL,
    people BIGINT NOT NULL,
    cannot_tell BIGINT NOT NULL,
    agreed DOUBLE,
    agreed_low DOUBLE,
    agreed_high DOUBLE,
    kappa DOUBLE,
    kappa_low DOUBLE,
    kappa_high DOUBLE,
    shared BIGINT NOT NULL,
    people_agreed DOUBLE,
    people_agreed_low DOUBLE,
    people_agreed_high DOUBLE,
    people_kappa DOUBLE,
    people_kappa_low DOUBLE,
    people_kappa_high DOUBLE,
    names VARCHAR[] NOT NULL,
    why VARCHAR NOT NULL,
    stamp VARCHAR NOT NULL
);
COMMENT ON TABLE corrections IS
    'Corrections of the scores of finished runs by people''s labels. A row an evaluation, candidate and dimension or '
    'tag; the view corrected has the raw scores beside them.';
