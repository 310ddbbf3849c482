"""Which evaluations lack what people's labels make of their scores, as SQL of the history.

Light, for whoever only asks whether there is anything to be done; what is done then is in `correcting`.
"""

TOLD = """
    SELECT flow, md5(string_agg(DISTINCT name || source_sha256, ' ' ORDER BY name || source_sha256)) AS stamp
    FROM labels WHERE page <> '' GROUP BY flow"""
"""Flow -> what its labels are, as one mark."""
DUE = f"""
    SELECT e.run_id FROM evaluations e JOIN ({TOLD}) t USING (flow)
    WHERE e.run_id IN (SELECT run_id FROM scores)
          AND NOT EXISTS (SELECT 1 FROM corrections c WHERE c.run_id = e.run_id AND c.stamp = t.stamp)
    UNION SELECT c.run_id FROM corrections c LEFT JOIN evaluations e USING (run_id) LEFT JOIN ({TOLD}) t USING (flow)
    WHERE t.stamp IS DISTINCT FROM c.stamp"""
"""Evaluations whose corrections are missing, or were made with other labels than there are now."""
