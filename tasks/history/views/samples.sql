CREATE VIEW samples AS
SELECT o.candidate, o.sample_id, o.score, o.score_scale, o.overall, o.status, o.problem, o.tier, o.tier_path,
       o.dimensions, o.pivotal, o.tag, o.prompt_id, o.prompt, o.aspects, o.aspect_mean, o.satisfied, o.caption,
       o.category, o.difficulty, o.carried_from, o.notes, o.injected, o.caught, o.flow, r.dataset, r.judge,
       r.started_at, r.run_id, coalesce(o.pictures['model'], o.pictures['image']).source_sha256 AS source_sha256,
       picture_path(source_sha256) AS picture,
       picture_path(o.pictures['human'].source_sha256) AS human_picture
FROM outcomes o JOIN shard_runs s USING (run_id) JOIN evaluations r ON r.run_id = s.evaluation_id;
COMMENT ON VIEW samples IS 'Samples of finished runs: score, outcome, picture files.';
-- score: Figures: Model 100, Tie 50, Human or forfeit 0. Images: 0-10. Checklists: 0-100. NULL: undecided, see status.
-- run_id: Evaluation (evaluations.run_id).
-- source_sha256: SHA-256 of the judged picture's file.
-- picture: File of the judged picture's thumbnail, relative to the store; NULL: there is none.
-- human_picture: File of the Human figure's thumbnail, relative to the store; NULL for images.
