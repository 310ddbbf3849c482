CREATE VIEW best_images AS
SELECT candidate, prompt_id, sample_id, score, aspect_mean, satisfied, tag, prompt, flow, started_at, run_id,
       source_sha256, picture
FROM samples
WHERE tag <> '' AND score IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY run_id, candidate, prompt_id ORDER BY score DESC, aspect_mean DESC, sample_id) = 1
ORDER BY started_at DESC, run_id DESC, candidate, prompt_id;
COMMENT ON VIEW best_images IS
    'The best image of each prompt. It is the best by score, by the aspects'' mean, then the first.';
-- score: Score of the image, 0-10; of checklists 0-100.
