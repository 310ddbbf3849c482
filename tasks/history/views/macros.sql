-- What judge and candidate are compared in: the mean of a figure's dimensions, and the score of an image.
CREATE MACRO dimension_mean(dimensions) AS CASE WHEN len(list_filter(dimensions, lambda each: each.score IS NULL)) = 0
    THEN list_avg(list_transform(dimensions, lambda each: each.score)) END;

-- The place of a dimension or tag in the prompt set of an evaluation; overall comes last. The renamed columns keep the
-- name that is given as `evaluation`, such as run_id, from meaning a column of `runs`.
CREATE MACRO dimension_position(evaluation, dimension) AS coalesce(list_position((
    SELECT any_value(in_order) FROM (SELECT evaluation_id AS of_evaluation, dimensions AS in_order FROM runs)
    WHERE of_evaluation = evaluation), dimension), 1000);

-- Flows of generated images, in the order of their tags.
CREATE MACRO image_flows() AS ['object', 'counting', 'colors', 'position'];

-- The tags that the overall of generated images consists of: GenEval's six, and those that a prompt set adds to a flow.
CREATE MACRO six_tags() AS ['single_object', 'two_object', 'counting', 'colors', 'color_attr', 'position'];
CREATE MACRO all_tags(of_flows) AS list_concat(six_tags(), list_sort(list_filter(
    list_distinct(flatten(of_flows)), lambda tag: NOT list_contains(six_tags(), tag))));

-- A bill: unknown as soon as one call is whose answer may have cost anything.
CREATE MACRO billed_sum(price, status) AS
    CASE WHEN NOT bool_or(price IS NULL AND status NOT IN ('rejected', 'unavailable')) THEN sum(price) END;

-- A sum that is unknown as soon as a part of it is.
CREATE MACRO known_sum(amount, price_source) AS
    CASE WHEN NOT bool_or(amount IS NULL AND price_source IS NOT NULL) THEN coalesce(sum(amount), 0) END;

-- The file of a picture's thumbnail in the store.
CREATE MACRO picture_path(source_sha256) AS 'pictures/' || source_sha256 || '.jpg';
