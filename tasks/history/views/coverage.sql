CREATE VIEW coverage AS
SELECT run_id, flow, r.started_at, candidate, count(*) AS n, count(score) AS scored,
       count(score) / count(*) AS share,
       count(*) FILTER (status = 'complete') AS complete, count(*) FILTER (status = 'incomplete') AS incomplete,
       count(*) FILTER (status = 'forfeit') AS forfeit, count(*) FILTER (status = 'no_reference') AS no_reference,
       count(*) FILTER (status = 'bad_picture') AS bad_picture,
       format('stopped at {:.2f}, {} of {}', any_value(r.stopped.budget), any_value(r.stopped.judged),
              any_value(r.stopped.samples)) AS stopped,
       any_value(r.revision) AS revision
FROM samples s JOIN evaluations r USING (run_id, flow)
GROUP BY ALL
ORDER BY r.started_at DESC, run_id DESC, candidate;
COMMENT ON VIEW coverage IS 'How many samples have a score, and how the others ended.';
-- n: Samples judged. Not among them: those after a stop (see stopped) and those that were forgotten (see revision).
-- scored: Samples with a score.
-- share: scored / n.
-- complete: Samples with everything that their outcome needs.
-- incomplete: Samples without an outcome, because verdicts are missing.
-- forfeit: Samples for which the candidate delivered nothing; they score 0.
-- no_reference: Samples without a Human figure.
-- bad_picture: Samples whose Human figure or image cannot be read.
-- stopped: Place where the budget stopped the run: stopped at 10.00, 148 of 292. NULL: it judged all samples.
