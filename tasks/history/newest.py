"""Which runs of different candidates stand beside each other, in SQL, and which of them were not compared yet.

The newest measured run of each candidate, where these were measured alike (equal flow, dataset key and protocol key);
of generated images the six tags together, too, joined over the four flows as the view `t2i_leaderboard` joins them. A
module of its own, because whoever only asks what is due does without numpy.
"""

MEMBERS = """
    WITH judged AS (
        SELECT flow, dataset_key, protocol_key, judge_key || ' ' || prompt_set AS judged_by, run_id, started_at,
               dimensions, unnest(candidates) AS candidate
        FROM evaluations WHERE measured
    ), of_flows AS (
        SELECT flow, dataset_key, protocol_key AS alike, candidate, [run_id] AS runs FROM judged
        QUALIFY row_number() OVER (
            PARTITION BY flow, dataset_key, protocol_key, candidate ORDER BY started_at DESC, run_id DESC) = 1
    ), of_tags AS (
        SELECT dataset_key, judged_by, candidate, run_id, dimensions FROM judged
        WHERE list_has_all(six_tags(), dimensions)
        QUALIFY row_number() OVER (
            PARTITION BY flow, dataset_key, judged_by, candidate ORDER BY started_at DESC, run_id DESC) = 1
    ), together AS (
        SELECT '' AS flow, dataset_key, judged_by AS alike, candidate, list(run_id ORDER BY run_id) AS runs FROM of_tags
        GROUP BY ALL HAVING sum(len(dimensions)) = len(six_tags())
    ), of_several AS (
        SELECT * FROM of_flows WINDOW one AS (PARTITION BY flow, dataset_key, alike)
        QUALIFY min(runs) OVER one <> max(runs) OVER one
    ), of_all_flows AS (
        SELECT * FROM together QUALIFY count(*) OVER (PARTITION BY dataset_key, alike) > 1
    )
    SELECT * FROM of_several UNION ALL SELECT * FROM of_all_flows"""
"""Members of all groups: flow (empty: the six tags together), dataset_key, alike, candidate, runs."""

DUE = f"""
    SELECT DISTINCT flow, dataset_key, alike
    FROM (SELECT *, true AS wanted FROM ({MEMBERS})) m
    FULL JOIN (SELECT DISTINCT flow, dataset_key, alike, candidate, runs, true AS had FROM versus_best) v
        USING (flow, dataset_key, alike, candidate, runs)
    WHERE wanted IS NULL OR had IS NULL"""
"""Groups of which the newest runs are others than those that were compared."""
