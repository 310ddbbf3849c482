CREATE VIEW failures AS
SELECT run_id, flow, judged_at AS noted_at,
       CASE WHEN coalesce("control", '') = '' THEN 'judgment' WHEN "control" = 'anchor' THEN 'anchor' ELSE 'control' END AS kind, status,
       candidate, sample_id, dimension, "order", vote, error AS problem
FROM judgments WHERE last_attempt AND status <> 'ok'
UNION ALL
SELECT run_id, flow, decided_at, 'outcome', status, candidate, sample_id, NULL, NULL, NULL, problem
FROM outcomes WHERE status IN ('forfeit', 'no_reference', 'bad_picture')
UNION ALL
SELECT run_id, flow, started_at, 'run', status, NULL, NULL, NULL, NULL, NULL,
       'still running, or ended without finishing'
FROM runs WHERE status = 'unfinished'
ORDER BY noted_at DESC, run_id DESC, kind, candidate, sample_id, dimension;
COMMENT ON VIEW failures IS 'Calls that are not ok, samples without a picture, broken runs.';
-- noted_at: Time of the reply, of the outcome or of the run's start, UTC.
-- kind: judgment, anchor or control: a call; outcome: a sample; run: a run that did not finish.
-- status: Status of the call, outcome or run.
-- problem: What went wrong.
