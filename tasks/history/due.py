"""SQL that finds results to recompute: nights, corrections, and comparisons with the best candidate.

The module is light: a landing with nothing new needs no numpy.
"""

from duckdb import DuckDBPyConnection as Connection

NIGHTS_DUE = """
    WITH wanted AS (
        SELECT run_id, flow, unnest(candidates) AS candidate, dataset_key, protocol_key FROM evaluations
        WHERE scheduled AND measured
    )
    SELECT DISTINCT coalesce(w.flow, n.flow) AS flow, candidate, coalesce(w.dataset_key, n.dataset_key) AS dataset_key,
           coalesce(w.protocol_key, n.protocol_key) AS protocol_key
    FROM wanted w FULL JOIN nights n USING (run_id, candidate) WHERE w.run_id IS NULL OR n.run_id IS NULL"""
"""Series (flow, candidate, dataset_key, protocol_key) with missing or surplus nights."""
LABEL_STAMPS = """
    SELECT flow, md5(string_agg(DISTINCT name || source_sha256, ' ' ORDER BY name || source_sha256)) AS stamp
    FROM labels WHERE page <> '' GROUP BY flow"""
"""Flow and a hash of its labels."""
CORRECTIONS_DUE = f"""
    SELECT e.run_id FROM evaluations e JOIN ({LABEL_STAMPS}) t USING (flow)
    WHERE e.run_id IN (SELECT run_id FROM scores)
          AND NOT EXISTS (SELECT 1 FROM corrections c WHERE c.run_id = e.run_id AND c.stamp = t.stamp)
    UNION SELECT c.run_id FROM corrections c LEFT JOIN evaluations e USING (run_id)
        LEFT JOIN ({LABEL_STAMPS}) t USING (flow)
    WHERE t.stamp IS DISTINCT FROM c.stamp"""
"""Evaluations whose corrections are missing or are based on other labels."""
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
        WHERE list_contains(image_flows(), flow)
        QUALIFY row_number() OVER (
            PARTITION BY flow, dataset_key, judged_by, candidate ORDER BY started_at DESC, run_id DESC) = 1
    ), together AS (
        SELECT '' AS flow, dataset_key, judged_by AS alike, candidate, list(run_id ORDER BY run_id) AS runs FROM of_tags
        GROUP BY ALL HAVING list_has_all(flatten(list(dimensions)), six_tags())
    ), of_several AS (
        SELECT * FROM of_flows WINDOW one AS (PARTITION BY flow, dataset_key, alike)
        QUALIFY min(runs) OVER one <> max(runs) OVER one
    ), of_all_flows AS (
        SELECT * FROM together QUALIFY count(*) OVER (PARTITION BY dataset_key, alike) > 1
    )
    SELECT * FROM of_several UNION ALL SELECT * FROM of_all_flows"""
"""Newest measured run of each candidate, grouped by equal flow, dataset key and protocol key; for generated images also
over the four flows, as in `t2i_leaderboard`.

Columns: flow (empty: all tags together), dataset_key, alike, candidate, runs.
"""
BEST_DUE = f"""
    SELECT DISTINCT flow, dataset_key, alike
    FROM (SELECT *, true AS wanted FROM ({MEMBERS})) m
    FULL JOIN (SELECT DISTINCT flow, dataset_key, alike, candidate, runs, true AS had FROM versus_best) v
        USING (flow, dataset_key, alike, candidate, runs)
    WHERE wanted IS NULL OR had IS NULL"""
"""Groups whose newest runs have not been compared."""
_NONE_DUE = """
    SELECT NOT EXISTS (FROM runs WHERE scheduled) AND NOT EXISTS (FROM nights),
        NOT EXISTS (FROM labels WHERE page <> '') AND NOT EXISTS (FROM corrections),
        (SELECT count(DISTINCT candidate) < 2 FROM (SELECT unnest(candidates) AS candidate FROM runs))
            AND NOT EXISTS (FROM versus_best)"""
"""Check, on tables alone, that no nights, corrections or comparisons with the best can be due. Planning the views that
find due results takes thirty times as long."""


def what_is_due(db: Connection) -> tuple[bool, ...]:
    """Return whether nights, corrections, and comparisons with the best must be recomputed."""
    none = db.execute(_NONE_DUE).fetchone() or (True, True, True)
    return tuple(
        not is_none and bool(db.execute(sql).fetchone())
        for is_none, sql in zip(none, (NIGHTS_DUE, CORRECTIONS_DUE, BEST_DUE), strict=True)
    )
