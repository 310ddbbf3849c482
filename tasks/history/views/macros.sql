-- What judge and candidate are compared in: the mean of a figure's dimensions, and the score of an image.
CREATE MACRO dimension_mean(dimensions) AS CASE WHEN len(list_filter(dimensions, lambda each: each.score IS NULL)) = 0
    THEN list_avg(list_transform(dimensions, lambda each: each.score)) END;

-- The order in which protocols and reports name dimensions and tags; others stand before overall.
CREATE MACRO dimension_position(dimension) AS CASE dimension
    WHEN 'faithfulness' THEN 1 WHEN 'conciseness' THEN 2 WHEN 'readability' THEN 3 WHEN 'aesthetics' THEN 4
    WHEN 'single_object' THEN 11 WHEN 'two_object' THEN 12 WHEN 'counting' THEN 13 WHEN 'colors' THEN 14
    WHEN 'color_attr' THEN 15 WHEN 'position' THEN 16 WHEN 'overall' THEN 20 ELSE 19 END;

-- What makes up the overall of generated images.
CREATE MACRO six_tags() AS ['single_object', 'two_object', 'counting', 'colors', 'color_attr', 'position'];

-- A bill: unknown as soon as one call is whose answer may have cost anything.
CREATE MACRO billed_sum(price, status) AS
    CASE WHEN NOT bool_or(price IS NULL AND status NOT IN ('rejected', 'unavailable')) THEN sum(price) END;

-- A sum that is unknown as soon as a part of it is.
CREATE MACRO known_sum(amount, price_source) AS
    CASE WHEN NOT bool_or(amount IS NULL AND price_source IS NOT NULL) THEN coalesce(sum(amount), 0) END;
