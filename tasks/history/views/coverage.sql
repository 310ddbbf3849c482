CREATE VIEW coverage AS
SELECT v.run_id, r.flow, r.started_at, v.candidate, count(*) AS n, count(v.score) AS scored,
       count(v.score) / count(*) AS share,
       count(*) FILTER (v.status = 'complete') AS complete, count(*) FILTER (v.status = 'incomplete') AS incomplete,
       count(*) FILTER (v.status = 'forfeit') AS forfeit, count(*) FILTER (v.status = 'no_reference') AS no_reference,
       count(*) FILTER (v.status = 'bad_picture') AS bad_picture,
       format('stopped at {:.2f}, {} of {}', any_value(r.stopped.budget), any_value(r.stopped.judged),
              any_value(r.stopped.samples)) AS stopped,
       any_value(r.revision) AS revision
FROM verdicts v JOIN evaluations r USING (run_id)
WHERE v.dimension = 'overall'
GROUP BY ALL
ORDER BY r.started_at DESC, v.run_id DESC, v.candidate;
COMMENT ON VIEW coverage IS
    'How many of the samples of a run have an overall score (scored / n = share), and the number of each status. '
    'stopped: of a run that stopped at its budget, where: `stopped at 10.00, 148 of 292` samples, whose others were '
    'never asked about and are not among n. revision: how often samples of the run were forgotten at '
    'a request; they are not among n either.';
