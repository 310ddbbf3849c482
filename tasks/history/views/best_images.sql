CREATE VIEW best_images AS
SELECT s.evaluation_id AS run_id, o.flow, r.started_at, o.candidate, o.tag, o.prompt_id, o.prompt, o.sample_id,
       o.score, o.aspect_mean, o.satisfied, o.pictures['image'].source_sha256 AS source_sha256
FROM outcomes o JOIN shard_runs s USING (run_id) JOIN evaluations r ON r.run_id = s.evaluation_id
WHERE o.tag <> '' AND o.score IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY s.evaluation_id, o.candidate, o.prompt_id ORDER BY o.score DESC, o.aspect_mean DESC, o.sample_id) = 1
ORDER BY r.started_at DESC, s.evaluation_id DESC, o.candidate, o.prompt_id;
COMMENT ON VIEW best_images IS
    'Generated images: the best image of each prompt, by score, then by the aspects'' mean, then the first.';
