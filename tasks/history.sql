-- The history: tables as they are loaded from ledgers, and the views people query. One file, run once on an empty
-- database. When anything here changes, a history made before is made anew from the ledgers (`jury sync --rebuild`).
--
-- Columns bear the names of the ledger's keys (records.py), so that rows are loaded by name. There are no indexes:
-- a run is deleted and inserted whole. Names that SQL reserves are quoted, "order" in queries too.

CREATE TABLE runs (
    run_id VARCHAR NOT NULL,
    evaluation_id VARCHAR NOT NULL,
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
    protocol MAP(VARCHAR, VARCHAR) NOT NULL,
    parameters JSON NOT NULL,
    calls BIGINT,
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
COMMENT ON COLUMN runs.flow IS 'What was judged: diagram, plot and so on.';
COMMENT ON COLUMN runs.status IS 'finished, or unfinished: still running, or ended without finishing.';
COMMENT ON COLUMN runs.started_at IS 'Before the first call, UTC.';
COMMENT ON COLUMN runs.finished_at IS 'After the last call, UTC; NULL while unfinished.';
COMMENT ON COLUMN runs.seconds IS 'Wall time of the run; NULL while unfinished.';
COMMENT ON COLUMN runs.version IS 'Version of Image Jury.';
COMMENT ON COLUMN runs.prefect_run_id IS 'Id of the Prefect flow run; empty outside of Prefect.';
COMMENT ON COLUMN runs.scheduled IS 'Started by a schedule, not by a person.';
COMMENT ON COLUMN runs.dataset IS 'Name of the dataset: its folder or file.';
COMMENT ON COLUMN runs.dataset_key IS
    'Hash of ids, texts and reference pictures: equal keys were judged on the same samples.';
COMMENT ON COLUMN runs.candidates IS 'Systems whose figures were judged.';
COMMENT ON COLUMN runs.samples IS 'Samples of the run, all candidates together.';
COMMENT ON COLUMN runs.prompt_set IS 'Name of the prompt set, or its folder.';
COMMENT ON COLUMN runs.prompts IS 'Dimension -> SHA-256 of its prompt body.';
COMMENT ON COLUMN runs.dimensions IS 'Dimensions judged.';
COMMENT ON COLUMN runs.model IS 'Judge asked for. What answered stands in protocol and in judgments.';
COMMENT ON COLUMN runs.endpoint IS 'Address of the judge.';
COMMENT ON COLUMN runs.resume_key IS 'Equal for runs that put the same questions about the same candidates.';
COMMENT ON COLUMN runs.protocol_key IS
    'Hash of all that makes runs comparable: compare only equal keys. NULL while unfinished.';
COMMENT ON COLUMN runs.protocol IS 'What protocol_key is the hash of, by name.';
COMMENT ON COLUMN runs.parameters IS 'Parameters that the run was started with.';
COMMENT ON COLUMN runs.calls IS 'Calls made, attempts included; NULL while unfinished.';
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
    dimension VARCHAR NOT NULL,
    "order" VARCHAR NOT NULL,
    vote INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    last_attempt BOOLEAN NOT NULL,
    status VARCHAR NOT NULL,
    verdict VARCHAR,
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
COMMENT ON COLUMN judgments.dimension IS 'Dimension that was asked about.';
COMMENT ON COLUMN judgments."order" IS 'Figure shown first: human_first (the published order) or model_first.';
COMMENT ON COLUMN judgments.vote IS 'Which of the votes on this question, from 1.';
COMMENT ON COLUMN judgments.attempt IS 'How often this call has been made in the run, from 1.';
COMMENT ON COLUMN judgments.last_attempt IS 'Whether this is the last attempt of its call: the one that counts.';
COMMENT ON COLUMN judgments.status IS 'ok, refused, truncated, invalid, rejected or unavailable.';
COMMENT ON COLUMN judgments.verdict IS 'Model, Human, Both are good or Both are bad; NULL unless ok.';
COMMENT ON COLUMN judgments.reasoning IS 'The judge''s reasons.';
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
    status VARCHAR NOT NULL,
    overall VARCHAR,
    score DOUBLE,
    tier VARCHAR NOT NULL,
    "path" VARCHAR NOT NULL,
    dimensions STRUCT(
        dimension VARCHAR, verdict VARCHAR, score DOUBLE, human_first VARCHAR, model_first VARCHAR, votes INTEGER,
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
COMMENT ON COLUMN outcomes.status IS
    'complete; incomplete (a verdict is missing that decides); forfeit (no Model picture); no_reference (no Human '
    'picture); bad_picture (Human picture unreadable).';
COMMENT ON COLUMN outcomes.overall IS 'Model, Human or Tie; NULL when nothing can be said.';
COMMENT ON COLUMN outcomes.score IS 'Model 100, Tie 50, Human 0, forfeit 0; NULL when nothing can be said.';
COMMENT ON COLUMN outcomes.tier IS 'Deciding tier: tier 1, tier 2 or either; empty when none decided.';
COMMENT ON COLUMN outcomes."path" IS 'How the outcome came about, in words.';
COMMENT ON COLUMN outcomes.dimensions IS
    'What votes and orders of each dimension come to; the view verdicts has them as rows.';
COMMENT ON COLUMN outcomes.caption IS 'Caption or brief description of the figure.';
COMMENT ON COLUMN outcomes.pictures IS 'Role (human, model) -> the picture and what was sent in its place.';
COMMENT ON COLUMN outcomes.problem IS 'Why a picture is missing or unreadable; empty when both are fine.';
COMMENT ON COLUMN outcomes.notes IS 'What a reader should know of the sample.';
COMMENT ON COLUMN outcomes.injected IS 'Defect that was put into the sample on purpose; empty: none is known.';
COMMENT ON COLUMN outcomes.caught IS 'Whether that defect decided its dimension; NULL: there is none.';
COMMENT ON COLUMN outcomes.decided_at IS 'When the outcome was decided, UTC.';
COMMENT ON COLUMN outcomes."schema" IS 'Version of the row as loaded.';

CREATE TABLE scores (
    run_id VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    dimension VARCHAR NOT NULL,
    "grouping" VARCHAR NOT NULL,
    group_name VARCHAR NOT NULL,
    n BIGINT NOT NULL,
    scored BIGINT NOT NULL,
    model_wins BIGINT NOT NULL,
    human_wins BIGINT NOT NULL,
    both_good BIGINT NOT NULL,
    both_bad BIGINT NOT NULL,
    mixed BIGINT NOT NULL,
    ties BIGINT NOT NULL,
    forfeits BIGINT NOT NULL,
    score DOUBLE,
    ci_low DOUBLE,
    ci_high DOUBLE,
    "method" VARCHAR NOT NULL,
    coverage DOUBLE NOT NULL
);
COMMENT ON TABLE scores IS
    'Counts, mean score and 95% interval of finished runs by candidate, dimension and group of samples.';
COMMENT ON COLUMN scores.run_id IS 'Run that the row belongs to.';
COMMENT ON COLUMN scores.candidate IS 'System whose figures were judged.';
COMMENT ON COLUMN scores.dimension IS 'A dimension, or overall: what the tier rule makes of them.';
COMMENT ON COLUMN scores."grouping" IS 'What the samples are grouped by: all (no groups), category or difficulty.';
COMMENT ON COLUMN scores.group_name IS 'The category or difficulty; empty where the grouping is all.';
COMMENT ON COLUMN scores.n IS 'Samples of the group.';
COMMENT ON COLUMN scores.scored IS 'Samples with a score: the sum of the seven counts that follow.';
COMMENT ON COLUMN scores.model_wins IS 'Verdicts (or outcomes) Model.';
COMMENT ON COLUMN scores.human_wins IS 'Verdicts (or outcomes) Human; forfeits are not among them.';
COMMENT ON COLUMN scores.both_good IS 'Verdicts Both are good.';
COMMENT ON COLUMN scores.both_bad IS 'Verdicts Both are bad.';
COMMENT ON COLUMN scores.mixed IS 'Votes or orders that disagree: a neutral.';
COMMENT ON COLUMN scores.ties IS 'Overall outcomes Tie.';
COMMENT ON COLUMN scores.forfeits IS 'Samples without a Model picture: they score 0.';
COMMENT ON COLUMN scores.score IS
    'Mean of Model 100, neutral or Tie 50, Human or forfeit 0; Human is 50 by definition. In the plot flow '
    'faithfulness cannot exceed 50.';
COMMENT ON COLUMN scores.ci_low IS 'Lower end of the 95% interval; NULL below 8 scored samples.';
COMMENT ON COLUMN scores.ci_high IS 'Upper end of the 95% interval; NULL below 8 scored samples.';
COMMENT ON COLUMN scores."method" IS 'How the interval was made: bootstrap, student t, binomial or none.';
COMMENT ON COLUMN scores.coverage IS 'scored / n.';

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

-- The order in which protocol and reports name the dimensions; others stand before overall.
CREATE MACRO dimension_position(dimension) AS CASE dimension
    WHEN 'faithfulness' THEN 1 WHEN 'conciseness' THEN 2 WHEN 'readability' THEN 3 WHEN 'aesthetics' THEN 4
    WHEN 'overall' THEN 6 ELSE 5 END;

CREATE VIEW verdicts AS
WITH each_dimension AS (
    SELECT run_id, flow, candidate, sample_id, category, difficulty, status, unnest(dimensions, max_depth := 2)
    FROM outcomes
    UNION ALL BY NAME
    SELECT run_id, flow, candidate, sample_id, category, difficulty, status,
           'overall' AS dimension, overall AS verdict, score
    FROM outcomes
)
SELECT run_id, flow, candidate, sample_id, category, difficulty, dimension, verdict, score, status,
       human_first, model_first, votes, ok_votes, order_flip, reversal
FROM each_dimension SEMI JOIN (SELECT run_id FROM runs WHERE status = 'finished') USING (run_id);
COMMENT ON VIEW verdicts IS
    'A row a sample and dimension (overall among them): verdict, score, votes, and whether the orders disagree '
    '(order_flip; reversal: Model against Human).';

CREATE VIEW by_group AS
SELECT r.run_id, r.flow, r.started_at, s.candidate, r.model, r.prompt_set, r.dataset, r.dataset_key, r.protocol_key,
       s."grouping", s.group_name, s.dimension, s.n, s.scored, s.model_wins, s.human_wins, s.both_good, s.both_bad,
       s.mixed, s.ties, s.forfeits, s.score, s.ci_low, s.ci_high, s."method", s.coverage
FROM scores s JOIN runs r USING (run_id)
WHERE r.status = 'finished';
COMMENT ON VIEW by_group IS
    'All scores with what they were measured on; leaderboard, by_category and by_difficulty are parts of it.';

CREATE VIEW leaderboard AS
SELECT * EXCLUDE ("grouping", group_name) FROM by_group WHERE "grouping" = 'all'
ORDER BY started_at DESC, run_id DESC, candidate, dimension_position(dimension);
COMMENT ON VIEW leaderboard IS
    'A row a run, candidate and dimension (overall among them), newest run first. Compare only rows of equal '
    'dataset_key and protocol_key.';

CREATE VIEW by_category AS
SELECT group_name AS category, * EXCLUDE ("grouping", group_name) FROM by_group WHERE "grouping" = 'category'
ORDER BY started_at DESC, run_id DESC, candidate, category, dimension_position(dimension);
COMMENT ON VIEW by_category IS 'The leaderboard by category. Samples without a category are in the leaderboard only.';

CREATE VIEW by_difficulty AS
SELECT group_name AS difficulty, * EXCLUDE ("grouping", group_name) FROM by_group WHERE "grouping" = 'difficulty'
ORDER BY started_at DESC, run_id DESC, candidate, difficulty, dimension_position(dimension);
COMMENT ON VIEW by_difficulty IS
    'The leaderboard by difficulty. Samples without a difficulty are in the leaderboard only.';

CREATE VIEW trend AS
SELECT flow, dataset, candidate, model, prompt_set, dimension, started_at, run_id, n, scored, score, ci_low, ci_high,
       coverage, protocol_key, dataset_key,
       protocol_key = lag(protocol_key) OVER series AND dataset_key = lag(dataset_key) OVER series AS comparable
FROM leaderboard SEMI JOIN (SELECT run_id FROM runs WHERE calls > 0 OR reused = 0) USING (run_id)
WINDOW series AS (PARTITION BY flow, dataset, candidate, model, prompt_set, dimension ORDER BY started_at, run_id)
ORDER BY flow, dataset, candidate, model, prompt_set, dimension_position(dimension), started_at, run_id;
COMMENT ON VIEW trend IS
    'Scores over time, oldest first, for each flow, dataset, candidate, judge, prompt set and dimension. '
    'comparable: both keys equal those of the row before; NULL for the first. Runs that reused every reply measured '
    'nothing new and are left out.';

CREATE VIEW coverage AS
SELECT v.run_id, r.flow, r.started_at, v.candidate, count(*) AS n, count(v.score) AS scored,
       count(v.score) / count(*) AS share,
       count(*) FILTER (v.status = 'complete') AS complete, count(*) FILTER (v.status = 'incomplete') AS incomplete,
       count(*) FILTER (v.status = 'forfeit') AS forfeit, count(*) FILTER (v.status = 'no_reference') AS no_reference,
       count(*) FILTER (v.status = 'bad_picture') AS bad_picture
FROM verdicts v JOIN runs r USING (run_id)
WHERE v.dimension = 'overall'
GROUP BY ALL
ORDER BY r.started_at DESC, v.run_id DESC, v.candidate;
COMMENT ON VIEW coverage IS
    'How many of the samples of a run have an overall score (scored / n = share), and the number of each status.';

CREATE VIEW disagreements AS
SELECT o.run_id, o.flow, r.started_at, o.candidate, o.sample_id, o.category, o.difficulty,
       [d.dimension FOR d IN o.dimensions IF d.verdict = 'Model'] AS model_dimensions,
       [d.dimension FOR d IN o.dimensions IF d.verdict = 'Human'] AS human_dimensions,
       o.overall, o.tier, o."path"
FROM outcomes o JOIN runs r USING (run_id)
WHERE r.status = 'finished' AND len(model_dimensions) > 0 AND len(human_dimensions) > 0
ORDER BY r.started_at DESC, o.run_id DESC, o.candidate, o.sample_id;
COMMENT ON VIEW disagreements IS 'Samples whose dimensions pull apart: one says Model and another Human.';

CREATE VIEW judgment_attempts AS
SELECT * FROM judgments SEMI JOIN (SELECT run_id FROM runs WHERE status = 'finished') USING (run_id);
COMMENT ON VIEW judgment_attempts IS 'Every attempt of finished runs; last_attempt marks those that count.';

CREATE VIEW cost AS
SELECT j.run_id, r.flow, r.started_at, coalesce(nullif(j.model_answered, ''), j.model_asked) AS model,
       count(*) FILTER (j.reused_from = '') AS calls, count(*) FILTER (j.reused_from <> '') AS reused,
       coalesce(sum(j.tokens_in) FILTER (j.reused_from = ''), 0)::BIGINT AS tokens_in,
       coalesce(sum(j.tokens_out) FILTER (j.reused_from = ''), 0)::BIGINT AS tokens_out,
       coalesce(sum(j.tokens_cached) FILTER (j.reused_from = ''), 0)::BIGINT AS tokens_cached,
       CASE WHEN NOT bool_or(j.price IS NULL AND j.status NOT IN ('rejected', 'unavailable')) THEN sum(j.price) END
           AS price,
       coalesce(sum(j.seconds) FILTER (j.reused_from = ''), 0) AS seconds
FROM judgments j JOIN runs r USING (run_id)
WHERE r.status = 'finished'
GROUP BY ALL
ORDER BY r.started_at DESC, j.run_id DESC, model;
COMMENT ON VIEW cost IS
    'Calls made, replies reused, tokens, price and seconds in the judge by run and model (as answered; as asked '
    'where no answer came). Tokens and seconds of reused replies are not counted again. price is NULL where that of '
    'any answered call is unknown.';

CREATE VIEW failures AS
SELECT run_id, flow, judged_at AS noted_at, 'judgment' AS kind, status, candidate, sample_id, dimension, "order", vote,
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
