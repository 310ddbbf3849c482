-- Whether a later series of a candidate has a whole baseline: then an alarm of an earlier one says nothing of today.
CREATE MACRO is_followed(of_flow, of_candidate, last_at) AS EXISTS (
    SELECT 1 FROM nights n JOIN nights b ON (b.run_id, b.candidate) = (n.baseline, n.candidate)
    WHERE n.phase = 'watched' AND n.flow = of_flow AND n.candidate = of_candidate AND b.started_at > last_at);

CREATE VIEW alarms AS
WITH raised AS (
    SELECT flow, candidate, series_key, protocol_key, baseline, alarm, min(since) AS since,
           max(night) AS last_night, arg_min(run_id, night) AS raised_by, min(started_at) AS raised_at,
           arg_min(baseline_score, night) AS baseline_score, arg_min(scale, night) AS scale,
           lag(max(started_at)) OVER (PARTITION BY candidate, baseline ORDER BY alarm) AS last_alarm_at
    FROM nights WHERE alarm IS NOT NULL GROUP BY flow, candidate, series_key, protocol_key, baseline, alarm
), dropped AS (
    SELECT r.candidate, r.baseline, r.alarm, min(n.started_at) AS since_at, max(n.started_at) AS last_at,
           count(*) AS nights, avg(n.change) AS change, arg_max(n.change, n.night) AS newest_change
    FROM raised r JOIN nights n USING (candidate, baseline)
    WHERE n.phase = 'watched' AND n.night BETWEEN r.since AND r.last_night GROUP BY ALL
), around AS (
    SELECT *, is_followed(flow, candidate, ended_at) AS is_followed FROM (
        SELECT flow, candidate, baseline, max(night) AS newest_night, min(started_at) AS began_at,
               max(started_at) AS ended_at, count(*) FILTER (phase = 'baseline') AS baseline_nights
        FROM nights GROUP BY ALL)
), parts AS (
    SELECT run_id, candidate, CASE "grouping" WHEN 'all' THEN dimension ELSE group_name END AS part, avg(score) AS score
    FROM scores WHERE measure = 'score'
        AND ("grouping" = 'aspect' OR ("grouping" = 'all' AND model_wins IS NOT NULL AND dimension <> 'overall'))
    GROUP BY ALL
), moved AS (
    SELECT r.candidate, r.baseline, r.alarm, p.part,
           avg(p.score) FILTER (n.phase = 'watched' AND n.night BETWEEN r.since AND r.last_night)
               - avg(p.score) FILTER (n.phase = 'baseline') AS change
    FROM raised r JOIN nights n USING (candidate, baseline) JOIN parts p USING (run_id, candidate) GROUP BY ALL
), most AS (
    SELECT candidate, baseline, alarm, arg_min(part, (change, part)) AS most_in, min(change) AS most_change
    FROM moved WHERE change IS NOT NULL GROUP BY ALL
), restarted AS (
    SELECT r.candidate, r.baseline, r.alarm, min(b.restarted_at) AS restarted_at
    FROM raised r JOIN baselines b ON b.flow = r.flow AND b.candidate IN ('', r.candidate)
        AND b.restarted_at > r.raised_at
    GROUP BY ALL
)
SELECT r.flow, e.dataset, r.candidate, e.judge,
       CASE WHEN r.last_night < a.newest_night THEN 'back'
            WHEN x.restarted_at IS NOT NULL THEN 'restarted'
            WHEN a.is_followed THEN 'ended' ELSE 'open' END AS state,
       d.since_at, r.raised_at, d.last_at, d.nights, r.baseline_score, r.baseline_score + d.change AS score, d.change,
       d.newest_change, r.scale, m.most_in, m.most_change, a.began_at AS baseline_from, a.baseline_nights, r.raised_by, r.series_key,
       r.protocol_key, coalesce(r.last_alarm_at, a.began_at) AS watched_from
FROM raised r JOIN dropped d USING (candidate, baseline, alarm) JOIN around a USING (candidate, baseline)
    LEFT JOIN most m USING (candidate, baseline, alarm) LEFT JOIN restarted x USING (candidate, baseline, alarm)
    JOIN evaluations e ON e.run_id = r.raised_by
ORDER BY state <> 'open', r.raised_at DESC, r.flow, r.candidate;
COMMENT ON VIEW alarms IS 'Drops of scheduled runs below their baseline, open ones first.';
-- state: open; back (three nights in a row near the baseline); restarted (a person began a new baseline); ended (no night
-- since, and a later series of the candidate has a whole baseline).
-- since_at: First night of the drop.
-- raised_at: Night that raised the alarm.
-- last_at: Last night of the drop.
-- nights: Nights of the drop.
-- score: Mean over the nights of the drop: the baseline and the change.
-- change: Mean change over these nights, on the samples that night and baseline share.
-- newest_change: Change of its newest night.
-- most_in: Dimension or aspect that fell most; of equal ones the first by name.
-- most_change: Change of that.
-- baseline_from: First night of the baseline.
-- baseline_nights: Nights of the baseline.
-- raised_by: Run that raised the alarm (evaluations.run_id).
-- watched_from: Time since which there was no other alarm.
