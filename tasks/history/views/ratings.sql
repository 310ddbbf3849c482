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
SELECT name, flow, candidate, sample_id, '', tag, dimension || aspect, verdict, score, annotator,
       coalesce(pictures['model'], pictures['image'])
FROM labels WHERE verdict IS NOT NULL OR score IS NOT NULL;
COMMENT ON VIEW ratings IS
    'What evaluations and labels (source: run_id or name) say of each sample: a row a question (dimension, overall; '
    'of images aspect, overall_score) and, in labels, annotator. picture: SHA-256 of what was judged.';
