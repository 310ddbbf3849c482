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
SELECT run_id, r.flow, r.started_at, candidate, r.judge, side, n, formats, sent_formats, megapixels, reencoded,
       transparent, tokens_in
FROM sides JOIN evaluations r USING (run_id) LEFT JOIN billed USING (run_id, candidate)
ORDER BY r.started_at DESC, run_id DESC, candidate, side;
COMMENT ON VIEW picture_contract IS
    'What the judge was shown: formats, megapixels, changes. Sides that differ may decide verdicts.';
-- run_id: Evaluation (evaluations.run_id).
-- side: human or model; image.
-- n: Pictures.
-- formats: Pictures by format of their files.
-- sent_formats: Pictures by format as sent.
-- megapixels: Megapixels as sent, the median.
-- reencoded: Share that was re-encoded.
-- transparent: Share that had a transparent background.
-- tokens_in: Input tokens billed per call, for all that a call holds.
