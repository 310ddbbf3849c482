CREATE VIEW by_aspect AS
SELECT group_name AS aspect, run_id, flow, started_at, candidate, judge, prompt_set, dataset, dimension AS tag, n,
       scored, prompts, score, image_mean, ci_low, ci_high, "method", worst_low, worst_high,
       dataset_key, protocol_key
FROM by_group WHERE "grouping" = 'aspect'
ORDER BY started_at DESC, run_id DESC, candidate, dimension_position(run_id, tag), aspect;
COMMENT ON VIEW by_aspect IS 'Scores of images by aspect, and of checklists by group. They are 0-10 and 0-100.';
-- aspect: Aspect of the tag's rubric; of checklists a group of checks.
-- tag: Tag of the prompts; of checklists the instrument.
