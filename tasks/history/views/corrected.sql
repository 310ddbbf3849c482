CREATE VIEW corrected AS
SELECT c.run_id, e.flow, e.started_at, c.candidate, c.dimension, s.score, s.ci_low, s.ci_high, c.corrected,
       c.corrected_low, c.corrected_high, c.bounds_low, c.bounds_high, c.corrected - s.score AS shift,
       c.labels, c.people, c.cannot_tell, c.agreed,
       c.agreed_low, c.agreed_high, c.kappa, c.kappa_low, c.kappa_high, c.shared, c.people_agreed,
       c.people_agreed_low, c.people_agreed_high, c.people_kappa, c.people_kappa_low, c.people_kappa_high, c.weight,
       c.names, c.why
FROM corrections c JOIN evaluations e USING (run_id)
JOIN scores s ON (s.run_id, s.candidate, s.dimension, s."grouping", s.measure)
    = (c.run_id, c.candidate, c.dimension, 'all', 'score')
ORDER BY e.started_at DESC, c.run_id DESC, c.candidate, dimension_position(c.run_id, c.dimension), c.dimension;
COMMENT ON VIEW corrected IS
    'Scores corrected by people beside the judge''s. By PPI++, from 15 labels on; only of flows that have labels by a '
    'page of jury labels page.';
-- flow: Flow of the evaluation.
-- candidate: System whose figures or images were judged.
-- dimension: Dimension, or overall; of images the tag.
-- score: Score by the judge alone.
-- shift: corrected minus score.
