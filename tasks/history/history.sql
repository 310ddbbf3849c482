-- The history: tables as they are loaded from ledgers, and the views people query. One file, run once on an empty
-- database. When anything here changes, a history made before is made anew from the ledgers (`jury sync --rebuild`).
--
-- Columns bear the names of the ledger's keys (records.py), so that rows are loaded by name. There are no indexes:
-- a run is deleted and inserted whole. Names that SQL reserves are quoted, "order" in queries too.

CREATE TABLE runs (
    run_id VARCHAR NOT NULL,
    evaluation_id VARCHAR NOT NULL,
    shard INTEGER,
    shards INTEGER,
    flow VARCHAR NOT NULL,
    status VARCHAR NOT NULL CHECK (status IN ('finished', 'unfinished')),
    started_at TIMESTAMP NOT NULL,
    finished_at TIMESTAMP,
    seconds DOUBLE,
    version VARCHAR NOT NULL,
    prefect_run_id VARCHAR NOT NULL,
    scheduled BOOLEAN NOT NULL,
    dataset VARCHAR NOT NULL,
    dataset_key VARCHAR NOT NULL,
    candidates VARCHAR[] NOT NULL,
    samples BIGINT NOT NULL,
    prompt_set VARCHAR NOT NULL,
    prompts MAP(VARCHAR, VARCHAR) NOT NULL,
    dimensions VARCHAR[] NOT NULL,
    model VARCHAR NOT NULL,
    endpoint VARCHAR NOT NULL,
    resume_key VARCHAR NOT NULL,
    protocol_key VARCHAR,
    judge_key VARCHAR,
    protocol MAP(VARCHAR, VARCHAR) NOT NULL,
    parameters JSON NOT NULL,
    calls BIGINT,
    sham_calls BIGINT,
    reused BIGINT,
    judgments MAP(VARCHAR, BIGINT),
    outcomes MAP(VARCHAR, BIGINT),
    warnings VARCHAR[],
    ledger_bytes BIGINT NOT NULL,
    "schema" INTEGER NOT NULL
);
COMMENT ON TABLE runs IS 'One row a run: a process that judged one dataset. All times in the history are UTC.';
COMMENT ON COLUMN runs.run_id IS 'Name of the run and of its ledger folder; ids sort by time.';
COMMENT ON COLUMN runs.evaluation_id IS 'Shared by the shards of one evaluation; a run on its own has one to itself.';
COMMENT ON COLUMN runs.shard IS 'Which of the shards of the evaluation, from 1; NULL in ledgers of schema 1 and 2.';
COMMENT ON COLUMN runs.shards IS 'Shards of the evaluation; 1 or NULL: there is only this run.';
COMMENT ON COLUMN runs.flow IS 'What was judged: diagram, plot; object, counting, colors, position.';
COMMENT ON COLUMN runs.status IS 'finished, or unfinished: still running, or ended without finishing.';
COMMENT ON COLUMN runs.started_at IS 'Before the first call, UTC.';
COMMENT ON COLUMN runs.finished_at IS 'After the last call, UTC; NULL while unfinished.';
COMMENT ON COLUMN runs.seconds IS 'Wall time of the run; NULL while unfinished.';
COMMENT ON COLUMN runs.version IS 'Version of Image Jury.';
COMMENT ON COLUMN runs.prefect_run_id IS 'Id of the Prefect flow run; empty outside of Prefect.';
COMMENT ON COLUMN runs.scheduled IS 'Started by a schedule, not by a person.';
COMMENT ON COLUMN runs.dataset IS 'Name of the dataset: its folder or file.';
COMMENT ON COLUMN runs.dataset_key IS
    'Hash of ids, texts and reference pictures, or of the text-to-image prompts: equal keys were judged on the same.';
COMMENT ON COLUMN runs.candidates IS 'Systems whose figures were judged.';
COMMENT ON COLUMN runs.samples IS 'Samples of the run, all candidates together.';
COMMENT ON COLUMN runs.prompt_set IS 'Name of the prompt set, or its folder.';
COMMENT ON COLUMN runs.prompts IS 'Dimension or tag -> SHA-256 of its prompt body.';
COMMENT ON COLUMN runs.dimensions IS 'Dimensions or tags of the flow.';
COMMENT ON COLUMN runs.model IS 'Judge asked for. What answered stands in protocol and in judgments.';
COMMENT ON COLUMN runs.endpoint IS 'Address of the judge.';
COMMENT ON COLUMN runs.resume_key IS 'Equal for runs that put the same questions about the same candidates.';
COMMENT ON COLUMN runs.protocol_key IS
    'Hash of all that makes runs comparable: compare only equal keys. NULL while unfinished.';
COMMENT ON COLUMN runs.judge_key IS
    'The same without the prompts: equal for runs of several flows by one judge in one way. NULL while unfinished.';
COMMENT ON COLUMN runs.protocol IS 'What protocol_key is the hash of, by name.';
COMMENT ON COLUMN runs.parameters IS 'Parameters that the run was started with.';
COMMENT ON COLUMN runs.calls IS 'Calls made, attempts included; NULL while unfinished.';
COMMENT ON COLUMN runs.sham_calls IS 'Those of them that were about control samples.';
COMMENT ON COLUMN runs.reused IS 'Replies taken over from earlier runs; NULL while unfinished.';
COMMENT ON COLUMN runs.judgments IS 'Status -> judgments that count; NULL while unfinished.';
COMMENT ON COLUMN runs.outcomes IS 'Status -> outcomes; NULL while unfinished.';
COMMENT ON COLUMN runs.warnings IS 'What the run warned of; NULL while unfinished.';
COMMENT ON COLUMN runs.ledger_bytes IS
    'Size of the ledger when it was loaded. A ledger only grows: another size means more to load.';
COMMENT ON COLUMN runs."schema" IS 'Version of the rows as loaded.';

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
    model_asked VARCHAR NOT NULL,
    model_answered VARCHAR NOT NULL,
    endpoint VARCHAR NOT NULL,
    tokens_in BIGINT NOT NULL,
    tokens_out BIGINT NOT NULL,
    tokens_cached BIGINT NOT NULL,
    price DOUBLE,
    seconds DOUBLE NOT NULL,
    not_sent VARCHAR[],
    http_retries INTEGER NOT NULL,
    judged_at TIMESTAMP NOT NULL,
    reused_from VARCHAR NOT NULL,
    "schema" INTEGER NOT NULL
);
COMMENT ON TABLE judgments IS
    'One row a reply to a call, or what came instead of one: every attempt, of unfinished runs too.';
COMMENT ON COLUMN judgments.run_id IS 'Run that the row belongs to.';
COMMENT ON COLUMN judgments.flow IS 'Flow of the run.';
COMMENT ON COLUMN judgments.sample_id IS 'Sample that was judged.';
COMMENT ON COLUMN judgments.candidate IS 'System whose figure was judged.';
COMMENT ON COLUMN judgments.control IS 'Kind of control sample that was shown; empty or NULL: a real sample.';
COMMENT ON COLUMN judgments.dimension IS 'Dimension that was asked about, or tag of the text-to-image prompt.';
COMMENT ON COLUMN judgments."order" IS
    'Figure shown first: human_first (the published order) or model_first; single: there is one picture.';
COMMENT ON COLUMN judgments.vote IS 'Which of the votes on this question, from 1.';
COMMENT ON COLUMN judgments.attempt IS 'How often this call has been made in the run, from 1.';
COMMENT ON COLUMN judgments.last_attempt IS 'Whether this is the last attempt of its call: the one that counts.';
COMMENT ON COLUMN judgments.status IS 'ok, refused, truncated, invalid, rejected or unavailable.';
COMMENT ON COLUMN judgments.verdict IS 'Model, Human, Both are good or Both are bad; NULL unless ok.';
COMMENT ON COLUMN judgments.scores IS 'Of a rubric: its aspects, then overall_score; aspect_scores has them as rows.';
COMMENT ON COLUMN judgments.seen IS 'Of a rubric with a check: what the judge says it sees.';
COMMENT ON COLUMN judgments.reasoning IS 'The judge''s reasons; of a rubric those for the overall score.';
COMMENT ON COLUMN judgments.raw IS 'The reply as it came, whole.';
COMMENT ON COLUMN judgments.error IS 'What went wrong, in the server''s words or ours; empty when ok.';
COMMENT ON COLUMN judgments.finish_reason IS 'Why the model stopped, in the server''s word.';
COMMENT ON COLUMN judgments.rung IS 'Reply format asked for: json_schema, json_object or plain.';
COMMENT ON COLUMN judgments.recovery IS 'How the reply was read: strict, or what had to be mended.';
COMMENT ON COLUMN judgments."key" IS 'SHA-256 of all that makes two calls the same call; replies are reused by it.';
COMMENT ON COLUMN judgments.prompt_sha256 IS 'SHA-256 of the prompt body as sent.';
COMMENT ON COLUMN judgments.text_sha256 IS 'SHA-256 of the sample''s texts as sent.';
COMMENT ON COLUMN judgments.pictures IS 'Role (human, model) -> the picture and what was sent in its place.';
COMMENT ON COLUMN judgments.model_asked IS 'Model named in the request.';
COMMENT ON COLUMN judgments.model_answered IS 'Model named in the reply; empty when none came.';
COMMENT ON COLUMN judgments.endpoint IS 'Address of the judge.';
COMMENT ON COLUMN judgments.tokens_in IS 'Input tokens, as counted by the server.';
COMMENT ON COLUMN judgments.tokens_out IS 'Output tokens, as counted by the server.';
COMMENT ON COLUMN judgments.tokens_cached IS 'Input tokens that the server had cached.';
COMMENT ON COLUMN judgments.price IS 'In the currency of the prices given; NULL: no price is known; 0 when reused.';
COMMENT ON COLUMN judgments.seconds IS 'Duration of the call.';
COMMENT ON COLUMN judgments.not_sent IS 'Parameters that the endpoint refuses and that were left to its defaults.';
COMMENT ON COLUMN judgments.http_retries IS 'How often the client sent the call again by itself.';
COMMENT ON COLUMN judgments.judged_at IS 'When the judge replied, UTC; of a reused reply: originally.';
COMMENT ON COLUMN judgments.reused_from IS 'Run whose reply this is; empty: the call was made in this run.';
COMMENT ON COLUMN judgments."schema" IS 'Version of the row as loaded.';

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
    aspects STRUCT(aspect VARCHAR, score DOUBLE, explanation VARCHAR)[],
    aspect_mean DOUBLE,
    satisfied BOOLEAN,
    published VARCHAR,
    p_model DOUBLE,
    p_tie DOUBLE,
    p_human DOUBLE,
    pivotal VARCHAR[],
    tier VARCHAR NOT NULL,
    "path" VARCHAR NOT NULL,
    dimensions STRUCT(
        dimension VARCHAR, verdict VARCHAR, score DOUBLE, human_first VARCHAR, model_first VARCHAR,
        published VARCHAR, votes INTEGER,
        ok_votes INTEGER, order_flip BOOLEAN, reversal BOOLEAN
    )[] NOT NULL,
    caption VARCHAR NOT NULL,
    pictures MAP(VARCHAR, STRUCT(
        source_sha256 VARCHAR, sent_sha256 VARCHAR, format VARCHAR, mode VARCHAR, width INTEGER, height INTEGER,
        bytes BIGINT, sent_format VARCHAR, sent_width INTEGER, sent_height INTEGER, sent_bytes BIGINT, changes VARCHAR[]
    )) NOT NULL,
    problem VARCHAR NOT NULL,
    notes VARCHAR[] NOT NULL,
    injected VARCHAR NOT NULL,
    caught BOOLEAN,
    decided_at TIMESTAMP NOT NULL,
    "schema" INTEGER NOT NULL
);
COMMENT ON TABLE outcomes IS
    'One row a run, sample and candidate: what the rule makes of the verdicts; of unfinished runs too.';
COMMENT ON COLUMN outcomes.run_id IS 'Run that the row belongs to.';
COMMENT ON COLUMN outcomes.flow IS 'Flow of the run.';
COMMENT ON COLUMN outcomes.sample_id IS 'Sample that was judged.';
COMMENT ON COLUMN outcomes.candidate IS 'System whose figure was judged.';
COMMENT ON COLUMN outcomes.category IS 'Category of the sample; empty: it has none.';
COMMENT ON COLUMN outcomes.difficulty IS 'Difficulty of the sample; empty: it has none.';
COMMENT ON COLUMN outcomes.tag IS 'Tag of the text-to-image prompt; empty or NULL for figures, like what follows.';
COMMENT ON COLUMN outcomes.prompt_id IS 'What the images of one text-to-image prompt share.';
COMMENT ON COLUMN outcomes.prompt IS 'The text-to-image prompt.';
COMMENT ON COLUMN outcomes.status IS
    'complete; incomplete (a verdict is missing that decides, or a score); forfeit (no Model picture); no_reference '
    '(no Human picture); bad_picture (Human picture unreadable; generated image missing or unreadable).';
COMMENT ON COLUMN outcomes.overall IS 'Model, Human or Tie; NULL when nothing can be said, and for generated images.';
COMMENT ON COLUMN outcomes.score IS
    'Model 100, Tie 50, Human 0, forfeit 0; of a generated image 0-10, the judge''s overall score; NULL when nothing '
    'can be said.';
COMMENT ON COLUMN outcomes.aspects IS 'Of a generated image: each aspect, mean of the votes.';
COMMENT ON COLUMN outcomes.aspect_mean IS 'Mean of the aspects that apply, 0-10.';
COMMENT ON COLUMN outcomes.satisfied IS
    'Whether what the judge sees is what the prompt asks for; NULL: not asked, or not known.';
COMMENT ON COLUMN outcomes.published IS
    'Overall by the published protocol alone: human first, first vote. NULL when that does not tell; in ledgers of '
    'schema 1 and 2 NULL, like what follows.';
COMMENT ON COLUMN outcomes.p_model IS 'Probability of Model, each verdict drawn from its votes over all orders.';
COMMENT ON COLUMN outcomes.p_tie IS 'Probability of Tie.';
COMMENT ON COLUMN outcomes.p_human IS 'Probability of Human.';
COMMENT ON COLUMN outcomes.pivotal IS
    'Dimensions of which another allowed verdict, alone, would have changed the overall.';
COMMENT ON COLUMN outcomes.tier IS 'Deciding tier: tier 1, tier 2 or either; empty when none decided.';
COMMENT ON COLUMN outcomes."path" IS 'How the outcome came about, in words.';
COMMENT ON COLUMN outcomes.dimensions IS
    'What votes and orders of each dimension or tag come to; the view verdicts has them as rows.';
COMMENT ON COLUMN outcomes.caption IS 'Caption or brief description of the figure.';
COMMENT ON COLUMN outcomes.pictures IS 'Role (human, model) -> the picture and what was sent in its place.';
COMMENT ON COLUMN outcomes.problem IS 'Why a picture is missing or unreadable; empty when both are fine.';
COMMENT ON COLUMN outcomes.notes IS 'What a reader should know of the sample.';
COMMENT ON COLUMN outcomes.injected IS 'Defect that was put into the sample on purpose; empty: none is known.';
COMMENT ON COLUMN outcomes.caught IS 'Whether that defect decided its dimension; NULL: there is none.';
COMMENT ON COLUMN outcomes.decided_at IS 'When the outcome was decided, UTC.';
COMMENT ON COLUMN outcomes."schema" IS 'Version of the row as loaded.';

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
        published VARCHAR, votes INTEGER,
        ok_votes INTEGER, order_flip BOOLEAN, reversal BOOLEAN
    )[] NOT NULL,
    real_overall VARCHAR,
    real_score DOUBLE,
    failed BOOLEAN
);
COMMENT ON TABLE controls IS
    'One row a control sample: what a run showed its judge to find out whether it looks. They enter no score; the view '
    'control_rates counts them.';
COMMENT ON COLUMN controls.run_id IS 'Run that the row belongs to.';
COMMENT ON COLUMN controls.flow IS 'Flow of the run.';
COMMENT ON COLUMN controls.candidate IS 'System whose sample the control was made of.';
COMMENT ON COLUMN controls.sample_id IS 'Sample that the control was made of.';
COMMENT ON COLUMN controls.control IS
    'What was shown: same picture (the Human one on both sides), re-encoded (the Human one, or the image, in another '
    'file format), other sample (a picture of another sample), blank (white), instruction (painted into the picture).';
COMMENT ON COLUMN controls.measure IS 'What it tells of the judge: false preference, neglect or injection.';
COMMENT ON COLUMN controls.status IS 'Status of its outcome, as in outcomes.';
COMMENT ON COLUMN controls.overall IS 'Model, Human or Tie, Model being the control; NULL for generated images.';
COMMENT ON COLUMN controls.score IS 'Score of the control, as in outcomes.';
COMMENT ON COLUMN controls.dimensions IS 'What votes and orders of each dimension or tag come to, as in outcomes.';
COMMENT ON COLUMN controls.real_overall IS 'Overall of the sample as it is.';
COMMENT ON COLUMN controls.real_score IS 'Score of the sample as it is.';
COMMENT ON COLUMN controls.failed IS
    'Whether the judge failed: false preference: a winner in any dimension, or 2 points of difference; neglect: Model '
    'won, or faithfulness is not Human, or the score is no lower; injection: the overall turned to Model, or the score '
    'rose by 2. NULL: a verdict is missing, or nothing was left to win or lose.';

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
    'One row an aspect (overall_score among them) of every judged image and vote; of unfinished runs too.';
COMMENT ON COLUMN aspect_scores.run_id IS 'Run that the row belongs to.';
COMMENT ON COLUMN aspect_scores.flow IS 'Flow of the run.';
COMMENT ON COLUMN aspect_scores.candidate IS 'System whose image was judged.';
COMMENT ON COLUMN aspect_scores.sample_id IS 'Image that was judged.';
COMMENT ON COLUMN aspect_scores.tag IS 'Tag of its prompt.';
COMMENT ON COLUMN aspect_scores.vote IS 'Which of the votes, from 1.';
COMMENT ON COLUMN aspect_scores.aspect IS 'Aspect, or overall_score.';
COMMENT ON COLUMN aspect_scores.score IS '0-10; NULL where the aspect does not apply.';
COMMENT ON COLUMN aspect_scores.explanation IS 'The judge''s explanation.';

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
    ties BIGINT,
    forfeits BIGINT,
    prompts BIGINT,
    score DOUBLE,
    image_mean DOUBLE,
    ci_low DOUBLE,
    ci_high DOUBLE,
    "method" VARCHAR NOT NULL,
    coverage DOUBLE NOT NULL
);
COMMENT ON TABLE scores IS
    'Counts, mean and 95% interval of finished runs by candidate, dimension or tag, measure and group of samples.';
COMMENT ON COLUMN scores.run_id IS 'Run that the row belongs to; of shards, their evaluation (evaluations.run_id).';
COMMENT ON COLUMN scores.candidate IS 'System whose figures were judged.';
COMMENT ON COLUMN scores.dimension IS 'A dimension, or overall: what the tier rule makes of them; or a tag.';
COMMENT ON COLUMN scores.measure IS
    'What was measured: score; of figures, where orders or votes were repeated, also published (the score by the first '
    'vote with the Human figure first alone: the published protocol); of generated images also aspect_mean, good (share of prompts with an image at or above '
    'the threshold) and satisfied (share of images that show what was asked for).';
COMMENT ON COLUMN scores."grouping" IS
    'What the samples are grouped by: all (no groups), category or difficulty; aspect: the score of one aspect.';
COMMENT ON COLUMN scores.group_name IS 'The category, difficulty or aspect; empty where the grouping is all.';
COMMENT ON COLUMN scores.n IS 'Samples of the group.';
COMMENT ON COLUMN scores.scored IS 'Samples with a score: of figures the sum of the seven counts that follow.';
COMMENT ON COLUMN scores.model_wins IS 'Verdicts (or outcomes) Model; NULL for generated images, like all counts.';
COMMENT ON COLUMN scores.human_wins IS 'Verdicts (or outcomes) Human; forfeits are not among them.';
COMMENT ON COLUMN scores.both_good IS 'Verdicts Both are good.';
COMMENT ON COLUMN scores.both_bad IS 'Verdicts Both are bad.';
COMMENT ON COLUMN scores.mixed IS 'Votes or orders that disagree: a neutral.';
COMMENT ON COLUMN scores.ties IS 'Overall outcomes Tie.';
COMMENT ON COLUMN scores.forfeits IS 'Samples without a Model picture: they score 0.';
COMMENT ON COLUMN scores.prompts IS 'Text-to-image prompts with a scored image; NULL for figures.';
COMMENT ON COLUMN scores.score IS
    'Mean of Model 100, neutral or Tie 50, Human or forfeit 0; Human is 50 by definition. In the plot flow '
    'faithfulness cannot exceed 50. Of generated images: mean over prompts, 0-10, of a share 0-1.';
COMMENT ON COLUMN scores.image_mean IS 'Mean over images, 0-10 or a share; NULL for figures.';
COMMENT ON COLUMN scores.ci_low IS 'Lower end of the 95% interval; NULL below 8 scored samples.';
COMMENT ON COLUMN scores.ci_high IS 'Upper end of the 95% interval; NULL below 8 scored samples.';
COMMENT ON COLUMN scores."method" IS 'How the interval was made: bootstrap, student t, binomial or none.';
COMMENT ON COLUMN scores.coverage IS 'scored / n.';

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
    'How far the judge agrees with itself in finished runs, and what the outcomes hang on: a row a candidate, dimension '
    'and measure, with its 95% interval. What was not asked for has no row.';
COMMENT ON COLUMN rates.run_id IS 'Run that the row belongs to; of shards, their evaluation (evaluations.run_id).';
COMMENT ON COLUMN rates.candidate IS 'System whose figures were judged.';
COMMENT ON COLUMN rates.dimension IS
    'A dimension or tag; overall: all dimensions together (of each sample the mean), and what is said of outcomes.';
COMMENT ON COLUMN rates.measure IS
    'Of both orders: order_flip (share of questions on which they differ), reversal (Model in one, Human in the other), '
    'first_position (share of the verdicts Model or Human that name the figure shown first, both orders alike; 0.5 is '
    'no bias). Of several votes: repeat_agreement (share of pairs in the same order that agree), of generated images '
    'repeat_difference (mean distance of two scores of an image, 0-10). Of outcomes: tier_1 (share that tier 1 '
    'decided), pivotal (share that another verdict, alone, would have changed; of a dimension, another of its own), '
    'p_model, p_tie and p_human (mean chances).';
COMMENT ON COLUMN rates.n IS 'Samples (of generated images: prompts) that the measure is known of.';
COMMENT ON COLUMN rates."value" IS 'Mean over those: a share, 0-1; of repeat_difference 0-10.';
COMMENT ON COLUMN rates.ci_low IS 'Lower end of the 95% interval; NULL below n = 8.';
COMMENT ON COLUMN rates.ci_high IS 'Upper end of the 95% interval; NULL below n = 8.';
COMMENT ON COLUMN rates."method" IS 'How the interval was made: bootstrap, student t, binomial or none.';

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
    thumbnail VARCHAR NOT NULL
);
COMMENT ON TABLE pictures IS 'One row a judged picture, in each form in which it was sent.';
COMMENT ON COLUMN pictures.source_sha256 IS 'SHA-256 of the picture''s file.';
COMMENT ON COLUMN pictures.format IS 'Format by content: PNG, JPEG, WEBP or GIF.';
COMMENT ON COLUMN pictures."mode" IS 'Pixel mode, in Pillow''s words.';
COMMENT ON COLUMN pictures.width IS 'Pixels across.';
COMMENT ON COLUMN pictures.height IS 'Pixels down.';
COMMENT ON COLUMN pictures.bytes IS 'Size of the file.';
COMMENT ON COLUMN pictures.sent_sha256 IS
    'SHA-256 of what was sent; that of the source when it was sent byte for byte.';
COMMENT ON COLUMN pictures.sent_format IS 'Format sent.';
COMMENT ON COLUMN pictures.sent_width IS 'Pixels across, as sent.';
COMMENT ON COLUMN pictures.sent_height IS 'Pixels down, as sent.';
COMMENT ON COLUMN pictures.sent_bytes IS 'Bytes sent.';
COMMENT ON COLUMN pictures.changes IS 'What was done to the picture; empty: nothing.';
COMMENT ON COLUMN pictures.thumbnail IS 'Where the store keeps a thumbnail, relative to the store.';

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
    source VARCHAR NOT NULL,
    source_sha256 VARCHAR NOT NULL,
    imported_at TIMESTAMP NOT NULL,
    "schema" INTEGER NOT NULL
);
COMMENT ON TABLE labels IS
    'What people say of samples: one row a person and question, as imported by `jury labels import`.';
COMMENT ON COLUMN labels.name IS 'Name of the labels: all rows of one imported file.';
COMMENT ON COLUMN labels.flow IS 'Flow whose samples they are about.';
COMMENT ON COLUMN labels.candidate IS 'Whose figure or image it is; empty: not told, that of the only candidate.';
COMMENT ON COLUMN labels.sample_id IS 'Sample.';
COMMENT ON COLUMN labels.dimension IS 'Dimension, or overall; empty for generated images.';
COMMENT ON COLUMN labels.tag IS 'Tag of the image''s prompt; empty: not told, and for figures.';
COMMENT ON COLUMN labels.aspect IS 'Aspect of the image, or overall_score; empty for figures.';
COMMENT ON COLUMN labels.verdict IS
    'Model, Human, Both are good or Both are bad, overall Model, Human or Tie; NULL for generated images.';
COMMENT ON COLUMN labels.score IS '0-10; NULL for figures.';
COMMENT ON COLUMN labels.annotator IS 'Who says so; empty: not told.';
COMMENT ON COLUMN labels."order" IS
    'Which figure this person was shown first: human_first or model_first; empty: not told.';
COMMENT ON COLUMN labels.source IS 'Name of the imported file.';
COMMENT ON COLUMN labels.source_sha256 IS 'SHA-256 of that file.';
COMMENT ON COLUMN labels.imported_at IS 'When it was imported, UTC.';
COMMENT ON COLUMN labels."schema" IS 'Version of the row as loaded.';

-- The order in which protocols and reports name dimensions and tags; others stand before overall.
CREATE MACRO dimension_position(dimension) AS CASE dimension
    WHEN 'faithfulness' THEN 1 WHEN 'conciseness' THEN 2 WHEN 'readability' THEN 3 WHEN 'aesthetics' THEN 4
    WHEN 'single_object' THEN 11 WHEN 'two_object' THEN 12 WHEN 'counting' THEN 13 WHEN 'colors' THEN 14
    WHEN 'color_attr' THEN 15 WHEN 'position' THEN 16 WHEN 'overall' THEN 20 ELSE 19 END;

-- Of each shard the newest run that finished: one that was killed is run again. A run on its own is its only shard.
CREATE VIEW shard_runs AS
SELECT run_id, evaluation_id FROM (
    SELECT run_id, evaluation_id, dataset_key, coalesce(shards, 1) AS shards FROM runs WHERE status = 'finished'
    QUALIFY row_number() OVER (
        PARTITION BY evaluation_id, dataset_key, shard ORDER BY started_at DESC, run_id DESC) = 1)
QUALIFY count(*) OVER (PARTITION BY evaluation_id, dataset_key) = shards;
COMMENT ON VIEW shard_runs IS
    'The runs that make up each complete evaluation: all of its shards, on the same dataset, or the one run that it is.';

-- Shards that no judge answered, because they held nothing to ask, say nothing of how the others were judged.
CREATE MACRO joint_key(one, answered) AS CASE count(DISTINCT one) FILTER (answered)
    WHEN 0 THEN max(one) WHEN 1 THEN max(one) FILTER (answered)
    ELSE sha256(string_agg(DISTINCT one, ' ' ORDER BY one) FILTER (answered)) END;

CREATE VIEW evaluations AS
SELECT s.evaluation_id AS run_id, any_value(flow) AS flow, min(started_at) AS started_at,
       max(finished_at) AS finished_at,
       CASE WHEN count(*) = 1 THEN max(seconds) ELSE epoch(max(finished_at) - min(started_at)) END AS seconds,
       count(*) AS shards, bool_or(scheduled) AS scheduled, any_value(dataset) AS dataset,
       any_value(dataset_key) AS dataset_key, list_sort(list_distinct(flatten(list(candidates)))) AS candidates,
       sum(samples)::BIGINT AS samples, any_value(prompt_set) AS prompt_set, any_value(prompts) AS prompts,
       any_value(dimensions) AS dimensions, any_value(model) AS model, any_value(endpoint) AS endpoint,
       joint_key(protocol_key, protocol['model answered'] <> '') AS protocol_key,
       joint_key(judge_key, protocol['model answered'] <> '') AS judge_key,
       any_value(protocol) AS protocol, any_value(parameters) AS parameters, sum(calls)::BIGINT AS calls,
       sum(reused)::BIGINT AS reused,
       sum(calls) > coalesce(sum(sham_calls), 0) OR sum(reused) = 0 AS measured, list_distinct(flatten(list(warnings))) AS warnings
FROM shard_runs s JOIN runs USING (run_id)
GROUP BY s.evaluation_id;
COMMENT ON VIEW evaluations IS
    'One row a finished run, or all shards of an evaluation as one: run_id is then the evaluation''s. Every view '
    'but failures goes by it. measured: not every reply about its samples was taken from earlier runs.';

CREATE VIEW verdicts AS
WITH each_dimension AS (
    SELECT run_id, flow, candidate, sample_id, category, difficulty, status, unnest(dimensions, max_depth := 2)
    FROM outcomes
    UNION ALL BY NAME
    SELECT run_id, flow, candidate, sample_id, category, difficulty, status,
           'overall' AS dimension, overall AS verdict, score, published
    FROM outcomes
)
SELECT s.evaluation_id AS run_id, flow, candidate, sample_id, category, difficulty, dimension, verdict, score, status,
       human_first, model_first, published, votes, ok_votes, order_flip, reversal
FROM each_dimension JOIN shard_runs s USING (run_id);
COMMENT ON VIEW verdicts IS
    'A row a sample and dimension (overall among them): verdict, score, votes, and whether the orders disagree '
    '(order_flip; reversal: Model against Human).';

-- What a run says of a sample is one row a question, whatever its votes; what people say is a row each.
CREATE VIEW ratings AS
WITH judged AS (
    SELECT s.evaluation_id AS source, o.*, coalesce(o.tag, '') AS tagged
    FROM outcomes o JOIN shard_runs s USING (run_id)
)
SELECT v.run_id AS source, v.flow, v.candidate, v.sample_id, '' AS prompt_id, '' AS tag, v.dimension AS question,
       v.verdict, NULL::DOUBLE AS score, '' AS annotator, j.pictures['model'].source_sha256 AS picture
FROM verdicts v JOIN judged j ON (j.source, j.candidate, j.sample_id) = (v.run_id, v.candidate, v.sample_id)
WHERE j.tagged = ''
UNION ALL
SELECT source, flow, candidate, sample_id, prompt_id, tag, 'overall_score', NULL, score, '',
       pictures['image'].source_sha256
FROM judged WHERE tagged <> ''
UNION ALL
SELECT source, flow, candidate, sample_id, prompt_id, tag, each.aspect, NULL, each.score, '',
       pictures['image'].source_sha256
FROM (SELECT *, unnest(aspects) AS each FROM judged WHERE tagged <> '')
UNION ALL
SELECT name, flow, candidate, sample_id, '', tag, dimension || aspect, verdict, score, annotator, NULL
FROM labels;
COMMENT ON VIEW ratings IS
    'What evaluations and labels (source: run_id or name) say of each sample: a row a question (dimension, overall; '
    'of images aspect, overall_score) and, in labels, annotator. picture: SHA-256 of what was judged.';

CREATE VIEW by_group AS
SELECT r.run_id, r.flow, r.started_at, s.candidate, r.model, r.prompt_set, r.dataset, r.dataset_key, r.protocol_key,
       s."grouping", s.group_name, s.dimension, s.measure, s.n, s.scored, s.model_wins, s.human_wins, s.both_good, s.both_bad,
       s.mixed, s.ties, s.forfeits, s.prompts, s.score, s.image_mean, s.ci_low, s.ci_high, s."method", s.coverage
FROM scores s JOIN evaluations r USING (run_id);
COMMENT ON VIEW by_group IS
    'All scores with what they were measured on; leaderboard, by_category and by_difficulty are parts of it.';

CREATE VIEW leaderboard AS
SELECT * EXCLUDE ("grouping", group_name, measure, prompts, image_mean) FROM by_group
WHERE "grouping" = 'all' AND measure = 'score' AND model_wins IS NOT NULL
ORDER BY started_at DESC, run_id DESC, candidate, dimension_position(dimension);
COMMENT ON VIEW leaderboard IS
    'Figures: a row a run, candidate and dimension (overall among them), newest run first. Compare only rows of equal '
    'dataset_key and protocol_key.';

CREATE VIEW by_category AS
SELECT group_name AS category, * EXCLUDE ("grouping", group_name, measure, prompts, image_mean) FROM by_group WHERE "grouping" = 'category'
ORDER BY started_at DESC, run_id DESC, candidate, category, dimension_position(dimension);
COMMENT ON VIEW by_category IS 'The leaderboard by category. Samples without a category are in the leaderboard only.';

CREATE VIEW by_difficulty AS
SELECT group_name AS difficulty, * EXCLUDE ("grouping", group_name, measure, prompts, image_mean) FROM by_group WHERE "grouping" = 'difficulty'
ORDER BY started_at DESC, run_id DESC, candidate, difficulty, dimension_position(dimension);
COMMENT ON VIEW by_difficulty IS
    'The leaderboard by difficulty. Samples without a difficulty are in the leaderboard only.';

-- Of each flow the newest finished run that has the candidate, where dataset, judge and prompt set are the same.
CREATE VIEW t2i_leaderboard AS
WITH tagged AS (
    SELECT r.flow, r.dataset, r.dataset_key, r.judge_key, r.model, r.prompt_set, r.run_id, r.started_at,
           s.candidate, s.dimension AS tag, s.score, s.ci_low, s.ci_high, s.image_mean, s.prompts, s.n, s.scored
    FROM scores s JOIN evaluations r USING (run_id)
    WHERE s."grouping" = 'all' AND s.measure = 'score' AND s.image_mean IS NOT NULL
    QUALIFY rank() OVER (
        PARTITION BY s.candidate, r.dataset_key, r.judge_key, r.prompt_set, r.flow
        ORDER BY r.started_at DESC, r.run_id DESC) = 1
), others AS (
    SELECT run_id, candidate, dimension AS tag,
           max(score) FILTER (measure = 'aspect_mean') AS aspect_mean, max(score) FILTER (measure = 'good') AS good,
           max(score) FILTER (measure = 'satisfied') AS satisfied
    FROM scores WHERE "grouping" = 'all' GROUP BY ALL
), tags AS (
    SELECT candidate, dataset, tag, score, ci_low, ci_high, image_mean, aspect_mean, score - aspect_mean AS gap, good,
           satisfied, prompts, n, scored, scored / n AS coverage, NULL::VARCHAR[] AS missing, model, prompt_set,
           started_at, [run_id] AS runs, [started_at] AS dates, dataset_key, judge_key
    FROM tagged JOIN others USING (run_id, candidate, tag)
), whole AS (
    -- Six independent means: their intervals add up as squares (MOVER; Zou and Donner, 2008).
    SELECT candidate, max(dataset) AS dataset, 'overall' AS tag, avg(score) AS score,
           CASE WHEN count(tags.ci_low) = 6 THEN avg(score) - sqrt(sum((tags.score - tags.ci_low) ** 2)) / 6 END AS ci_low,
           CASE WHEN count(tags.ci_high) = 6 THEN avg(score) + sqrt(sum((tags.ci_high - tags.score) ** 2)) / 6 END
               AS ci_high,
           avg(image_mean) AS image_mean, avg(aspect_mean) AS aspect_mean, avg(gap) AS gap, avg(good) AS good,
           CASE WHEN count(satisfied) = 6 THEN avg(satisfied) END AS satisfied, sum(prompts)::BIGINT AS prompts,
           sum(n)::BIGINT AS n, sum(scored)::BIGINT AS scored, sum(scored) / sum(n) AS coverage,
           list_filter(['single_object', 'two_object', 'counting', 'colors', 'color_attr', 'position'],
                       lambda one: NOT list_contains(list(tag), one)) AS missing,
           max(model) AS model, prompt_set, max(started_at) AS started_at,
           list_sort(list_distinct(flatten(list(runs)))) AS runs,
           list_sort(list_distinct(flatten(list(dates)))) AS dates, dataset_key, judge_key
    FROM tags GROUP BY candidate, prompt_set, dataset_key, judge_key
)
SELECT * FROM tags
UNION ALL BY NAME
SELECT * REPLACE (
    CASE WHEN len(missing) = 0 THEN score END AS score, CASE WHEN len(missing) = 0 THEN ci_low END AS ci_low,
    CASE WHEN len(missing) = 0 THEN ci_high END AS ci_high,
    CASE WHEN len(missing) = 0 THEN image_mean END AS image_mean,
    CASE WHEN len(missing) = 0 THEN aspect_mean END AS aspect_mean, CASE WHEN len(missing) = 0 THEN gap END AS gap,
    CASE WHEN len(missing) = 0 THEN good END AS good, CASE WHEN len(missing) = 0 THEN satisfied END AS satisfied)
FROM whole
ORDER BY dataset, model, prompt_set, dataset_key, judge_key, dimension_position(tag), score DESC, candidate;
COMMENT ON VIEW t2i_leaderboard IS
    'Generated images: a row a candidate and tag, and overall: the mean of the six tag means where none is missing. '
    'score is the mean over prompts of the judge''s overall scores (0-10), image_mean the mean over images, '
    'aspect_mean that of the aspects and gap the difference; good the share of prompts with an image at or above the '
    'threshold, satisfied the share that shows what was asked. Joined from the newest run of each flow (runs, dates) of equal '
    'dataset_key, judge_key and prompt_set. No GenEval score: that is a detector''s.';

CREATE VIEW by_aspect AS
SELECT group_name AS aspect, run_id, flow, started_at, candidate, model, prompt_set, dataset, dimension AS tag, n,
       scored, prompts, score, image_mean, ci_low, ci_high, "method", dataset_key, protocol_key
FROM by_group WHERE "grouping" = 'aspect'
ORDER BY started_at DESC, run_id DESC, candidate, dimension_position(tag), aspect;
COMMENT ON VIEW by_aspect IS 'Generated images: a row a run, candidate, tag and aspect, 0-10, newest run first.';

CREATE VIEW best_images AS
SELECT s.evaluation_id AS run_id, o.flow, r.started_at, o.candidate, o.tag, o.prompt_id, o.prompt, o.sample_id, o.score, o.aspect_mean,
       o.satisfied, o.pictures['image'].source_sha256 AS source_sha256
FROM outcomes o JOIN shard_runs s USING (run_id) JOIN evaluations r ON r.run_id = s.evaluation_id
WHERE o.tag <> '' AND o.score IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY s.evaluation_id, o.candidate, o.prompt_id ORDER BY o.score DESC, o.aspect_mean DESC, o.sample_id) = 1
ORDER BY r.started_at DESC, s.evaluation_id DESC, o.candidate, o.prompt_id;
COMMENT ON VIEW best_images IS
    'Generated images: the best image of each prompt, by score, then by the aspects'' mean, then the first.';

CREATE VIEW reliability AS
SELECT r.run_id, r.flow, r.started_at, s.candidate, r.model, r.prompt_set, r.dataset, s.dimension, s.measure, s."value",
       s.ci_low, s.ci_high, s.n, s."method", r.dataset_key, r.protocol_key
FROM rates s JOIN evaluations r USING (run_id)
ORDER BY r.started_at DESC, r.run_id DESC, s.candidate, s.measure, dimension_position(s.dimension);
COMMENT ON VIEW reliability IS
    'All rates with what they were measured on, newest run first: how far orders and votes agree, which tier decided, '
    'how many outcomes hang on one verdict.';

-- What two protocols do not share, by name; the model asked for is no part of them, only the one that answered.
CREATE MACRO protocol_differences(one, other) AS list_filter(
    list_sort(list_distinct(list_concat(map_keys(one), map_keys(other)))),
    lambda name: name <> 'model asked' AND one[name] IS DISTINCT FROM other[name]);

CREATE VIEW trend AS
WITH measured AS (
    SELECT *, lag(run_id) OVER series AS before, protocol_key = lag(protocol_key) OVER series AS same_protocol,
           dataset_key = lag(dataset_key) OVER series AS same_dataset
    FROM by_group SEMI JOIN (SELECT run_id FROM evaluations WHERE measured) USING (run_id)
    WHERE "grouping" = 'all' AND measure = 'score'
    WINDOW series AS (PARTITION BY flow, dataset, candidate, model, prompt_set, dimension ORDER BY started_at, run_id)
), breaks AS (
    SELECT DISTINCT run_id, before, same_dataset FROM measured WHERE NOT (same_protocol AND same_dataset)
), reasons AS (
    SELECT b.run_id, b.before, array_to_string(list_concat(
               CASE WHEN b.same_dataset THEN [] ELSE ['dataset'] END,
               protocol_differences(now.protocol, earlier.protocol)), ', ') AS reason
    FROM breaks b JOIN evaluations now USING (run_id) JOIN evaluations earlier ON earlier.run_id = b.before
)
SELECT m.flow, m.dataset, m.candidate, m.model, m.prompt_set, m.dimension, m.started_at, m.run_id, m.n, m.scored,
       m.score, m.ci_low, m.ci_high, m.coverage, m.protocol_key, m.dataset_key,
       same_protocol AND same_dataset AS comparable,
       CASE WHEN NOT comparable THEN coalesce(nullif(r.reason, ''), 'protocols of its shards') END AS break_reason
FROM measured m LEFT JOIN reasons r ON r.run_id = m.run_id AND r.before = m.before
ORDER BY flow, dataset, candidate, model, prompt_set, dimension_position(dimension), started_at, run_id;
COMMENT ON VIEW trend IS
    'Scores over time, oldest first, for each flow, dataset, candidate, judge, prompt set and dimension or tag. '
    'comparable: both keys equal those of the row before; NULL for the first. break_reason: where they do not, the '
    'items of the protocol that differ, and dataset where that does. Runs that reused every reply measured nothing new '
    'and are left out.';

CREATE VIEW coverage AS
SELECT v.run_id, r.flow, r.started_at, v.candidate, count(*) AS n, count(v.score) AS scored,
       count(v.score) / count(*) AS share,
       count(*) FILTER (v.status = 'complete') AS complete, count(*) FILTER (v.status = 'incomplete') AS incomplete,
       count(*) FILTER (v.status = 'forfeit') AS forfeit, count(*) FILTER (v.status = 'no_reference') AS no_reference,
       count(*) FILTER (v.status = 'bad_picture') AS bad_picture
FROM verdicts v JOIN evaluations r USING (run_id)
WHERE v.dimension = 'overall'
GROUP BY ALL
ORDER BY r.started_at DESC, v.run_id DESC, v.candidate;
COMMENT ON VIEW coverage IS
    'How many of the samples of a run have an overall score (scored / n = share), and the number of each status.';

CREATE VIEW disagreements AS
SELECT s.evaluation_id AS run_id, o.flow, r.started_at, o.candidate, o.sample_id, o.category, o.difficulty,
       [d.dimension FOR d IN o.dimensions IF d.verdict = 'Model'] AS model_dimensions,
       [d.dimension FOR d IN o.dimensions IF d.verdict = 'Human'] AS human_dimensions,
       o.overall, o.tier, o."path"
FROM outcomes o JOIN shard_runs s USING (run_id) JOIN evaluations r ON r.run_id = s.evaluation_id
WHERE len(model_dimensions) > 0 AND len(human_dimensions) > 0
ORDER BY r.started_at DESC, s.evaluation_id DESC, o.candidate, o.sample_id;
COMMENT ON VIEW disagreements IS 'Samples whose dimensions pull apart: one says Model and another Human.';

CREATE VIEW judgment_attempts AS
SELECT j.* REPLACE (s.evaluation_id AS run_id) FROM judgments j JOIN shard_runs s USING (run_id);
COMMENT ON VIEW judgment_attempts IS 'Every attempt of finished runs; last_attempt marks those that count.';

CREATE VIEW cost AS
SELECT r.run_id, r.flow, r.started_at, coalesce(nullif(j.model_answered, ''), j.model_asked) AS model,
       count(*) FILTER (j.reused_from = '') AS calls, count(*) FILTER (j.reused_from <> '') AS reused,
       coalesce(sum(j.tokens_in) FILTER (j.reused_from = ''), 0)::BIGINT AS tokens_in,
       coalesce(sum(j.tokens_out) FILTER (j.reused_from = ''), 0)::BIGINT AS tokens_out,
       coalesce(sum(j.tokens_cached) FILTER (j.reused_from = ''), 0)::BIGINT AS tokens_cached,
       CASE WHEN NOT bool_or(j.price IS NULL AND j.status NOT IN ('rejected', 'unavailable')) THEN sum(j.price) END
           AS price,
       coalesce(sum(j.seconds) FILTER (j.reused_from = ''), 0) AS seconds
FROM judgments j JOIN shard_runs s USING (run_id) JOIN evaluations r ON r.run_id = s.evaluation_id
GROUP BY ALL
ORDER BY r.started_at DESC, r.run_id DESC, model;
COMMENT ON VIEW cost IS
    'Calls made, replies reused, tokens, price and seconds in the judge by run and model (as answered; as asked '
    'where no answer came). Tokens and seconds of reused replies are not counted again. price is NULL where that of '
    'any answered call is unknown.';

-- The status of a rate needs its exact interval, which is no SQL: tasks/controls/status.py and the report have it.
CREATE VIEW control_rates AS
SELECT s.evaluation_id AS run_id, r.flow, r.started_at, r.model, r.prompt_set, c.measure, count(c.failed) AS n,
       count(*) FILTER (c.failed) AS failed, count(*) FILTER (c.failed) / nullif(count(c.failed), 0) AS rate,
       count(*) - count(c.failed) AS untold
FROM controls c JOIN shard_runs s USING (run_id) JOIN evaluations r ON r.run_id = s.evaluation_id
GROUP BY ALL
ORDER BY r.started_at DESC, s.evaluation_id DESC, c.measure;
COMMENT ON VIEW control_rates IS
    'How often the judge of a run failed on control samples: false preference between equal pictures, neglect of foreign '
    'or blank ones, injection by painted instructions. rate is failed / n; untold counts controls that tell nothing.';

CREATE VIEW picture_contract AS
WITH shown AS (
    SELECT s.evaluation_id AS run_id, o.candidate, unnest(map_keys(o.pictures)) AS side,
           unnest(map_values(o.pictures)) AS picture
    FROM outcomes o JOIN shard_runs s USING (run_id)
), sides AS (
    SELECT run_id, candidate, side, count(*) AS n, histogram(picture.format) AS formats,
           histogram(picture.sent_format) AS sent_formats,
           median(picture.sent_width::BIGINT * picture.sent_height) / 1e6 AS megapixels,
           count(*) FILTER (len(picture.changes) > 0) / count(*) AS reencoded,
           count(*) FILTER (list_contains(picture.changes, 'transparency composited on white')) / count(*)
               AS transparent
    FROM shown GROUP BY ALL
), billed AS (
    SELECT s.evaluation_id AS run_id, j.candidate, avg(j.tokens_in) AS tokens_in
    FROM judgments j JOIN shard_runs s USING (run_id)
    WHERE j.reused_from = '' AND j.status = 'ok' AND coalesce(j.control, '') = ''
    GROUP BY ALL
)
SELECT run_id, r.flow, r.started_at, candidate, r.model, side, n, formats, sent_formats, megapixels, reencoded,
       transparent, tokens_in
FROM sides JOIN evaluations r USING (run_id) LEFT JOIN billed USING (run_id, candidate)
ORDER BY r.started_at DESC, run_id DESC, candidate, side;
COMMENT ON VIEW picture_contract IS
    'What the judge was shown, a row a run, candidate and side (human, model; image): pictures by format of the file '
    'and as sent, megapixels as sent (median), shares that were re-encoded and that had a transparent background. '
    'tokens_in: input tokens billed per call, of all that a call holds. Sides that differ may decide verdicts.';

CREATE VIEW failures AS
SELECT run_id, flow, judged_at AS noted_at,
       CASE WHEN coalesce("control", '') = '' THEN 'judgment' ELSE 'control' END AS kind, status, candidate, sample_id, dimension, "order", vote,
       error AS problem
FROM judgments WHERE last_attempt AND status <> 'ok'
UNION ALL
SELECT run_id, flow, decided_at, 'outcome', status, candidate, sample_id, NULL, NULL, NULL, problem
FROM outcomes WHERE status IN ('forfeit', 'no_reference', 'bad_picture')
UNION ALL
SELECT run_id, flow, started_at, 'run', status, NULL, NULL, NULL, NULL, NULL,
       'still running, or ended without finishing'
FROM runs WHERE status = 'unfinished'
ORDER BY noted_at DESC, run_id DESC, kind, candidate, sample_id, dimension;
COMMENT ON VIEW failures IS
    'What went wrong: calls whose last attempt is not ok, samples that lack a picture, runs that did not finish '
    '(with what went wrong in them).';
