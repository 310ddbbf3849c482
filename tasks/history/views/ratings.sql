-- What a run says of a sample is one row a question, whatever its votes; what people say is a row each.
CREATE VIEW ratings AS
WITH judged AS (
    SELECT s.evaluation_id AS source, o.*, coalesce(o.tag, '') AS tagged
    FROM outcomes o JOIN shard_runs s USING (run_id)
)
SELECT v.run_id AS source, v.flow, v.candidate, v.sample_id, '' AS prompt_id, '' AS tag, v.dimension AS question,
       v.verdict, NULL::DOUBLE AS score, '' AS annotator, picture_path(j.pictures['model'].source_sha256) AS picture,
       list_sort([each.source_sha256 FOR each IN map_values(j.pictures)]) AS pictures
FROM verdicts v JOIN judged j ON (j.source, j.candidate, j.sample_id) = (v.run_id, v.candidate, v.sample_id)
WHERE j.tagged = ''
UNION ALL
SELECT source, flow, candidate, sample_id, prompt_id, tag, 'overall_score', NULL, score, '',
       picture_path(pictures['image'].source_sha256), [pictures['image'].source_sha256]
FROM judged WHERE tagged <> ''
UNION ALL
SELECT source, flow, candidate, sample_id, prompt_id, tag, each.aspect, NULL, each.score, '',
       picture_path(pictures['image'].source_sha256), [pictures['image'].source_sha256]
FROM (SELECT *, unnest(aspects) AS each FROM judged WHERE tagged <> '')
UNION ALL
SELECT name, flow, candidate, sample_id, '', tag, dimension || aspect, verdict, score, annotator,
       picture_path(coalesce(pictures['model'], pictures['image'])), list_sort(map_values(pictures))
FROM labels WHERE verdict IS NOT NULL OR score IS NOT NULL;
COMMENT ON VIEW ratings IS
    'Ratings of samples by evaluations and by people. A row a question and, in labels, annotator.';
-- source: Evaluation (evaluations.run_id), or name of the labels.
-- question: Dimension, or overall; of images an aspect, or overall_score.
-- verdict: Verdict on figures; NULL for images.
-- score: Score of images; NULL for figures.
-- annotator: Person who gave the label; empty for an evaluation.
-- picture: File of the judged picture's thumbnail, relative to the store.
-- pictures: SHA-256 of the files of all pictures that were shown, sorted; empty: not given.
