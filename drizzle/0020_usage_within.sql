-- Sums of days within one model, and within one team. The plus keeps the index of teams out of it: all of the table is read.
INSERT INTO usage_daily
SELECT 'key of model', day_ms, value, requests, errors, cuts, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, reasoning_tokens, audio_prompt_tokens, audio_completion_tokens, image_tokens, image_completion_tokens, cost_nano_usd, estimated_cost_nano_usd,
  COALESCE(first_token.histogram, '{}'), COALESCE(duration.histogram, '{}')
FROM (
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, model || ' ' || key_id AS value, SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts, SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens, SUM(cache_write_tokens) AS cache_write_tokens, SUM(cache_write_1h_tokens) AS cache_write_1h_tokens, SUM(completion_tokens) AS completion_tokens, SUM(reasoning_tokens) AS reasoning_tokens, SUM(audio_prompt_tokens) AS audio_prompt_tokens, SUM(audio_completion_tokens) AS audio_completion_tokens, SUM(image_tokens) AS image_tokens, SUM(image_completion_tokens) AS image_completion_tokens, SUM(cost_nano_usd) AS cost_nano_usd, SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly WHERE model <> '' GROUP BY 1, 2
)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, model || ' ' || key_id AS value, CAST(bucket.key AS INTEGER) AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(first_token_histogram) AS bucket WHERE model <> '' GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS first_token USING (day_ms, value)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, model || ' ' || key_id AS value, CAST(bucket.key AS INTEGER) AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(duration_histogram) AS bucket WHERE model <> '' GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS duration USING (day_ms, value);
--> statement-breakpoint
INSERT INTO usage_daily
SELECT 'team of model', day_ms, value, requests, errors, cuts, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, reasoning_tokens, audio_prompt_tokens, audio_completion_tokens, image_tokens, image_completion_tokens, cost_nano_usd, estimated_cost_nano_usd,
  COALESCE(first_token.histogram, '{}'), COALESCE(duration.histogram, '{}')
FROM (
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, model || ' ' || team_id AS value, SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts, SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens, SUM(cache_write_tokens) AS cache_write_tokens, SUM(cache_write_1h_tokens) AS cache_write_1h_tokens, SUM(completion_tokens) AS completion_tokens, SUM(reasoning_tokens) AS reasoning_tokens, SUM(audio_prompt_tokens) AS audio_prompt_tokens, SUM(audio_completion_tokens) AS audio_completion_tokens, SUM(image_tokens) AS image_tokens, SUM(image_completion_tokens) AS image_completion_tokens, SUM(cost_nano_usd) AS cost_nano_usd, SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly WHERE model <> '' GROUP BY 1, 2
)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, model || ' ' || team_id AS value, CAST(bucket.key AS INTEGER) AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(first_token_histogram) AS bucket WHERE model <> '' GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS first_token USING (day_ms, value)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, model || ' ' || team_id AS value, CAST(bucket.key AS INTEGER) AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(duration_histogram) AS bucket WHERE model <> '' GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS duration USING (day_ms, value);
--> statement-breakpoint
INSERT INTO usage_daily
SELECT 'upstream of model', day_ms, value, requests, errors, cuts, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, reasoning_tokens, audio_prompt_tokens, audio_completion_tokens, image_tokens, image_completion_tokens, cost_nano_usd, estimated_cost_nano_usd,
  COALESCE(first_token.histogram, '{}'), COALESCE(duration.histogram, '{}')
FROM (
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, model || ' ' || upstream AS value, SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts, SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens, SUM(cache_write_tokens) AS cache_write_tokens, SUM(cache_write_1h_tokens) AS cache_write_1h_tokens, SUM(completion_tokens) AS completion_tokens, SUM(reasoning_tokens) AS reasoning_tokens, SUM(audio_prompt_tokens) AS audio_prompt_tokens, SUM(audio_completion_tokens) AS audio_completion_tokens, SUM(image_tokens) AS image_tokens, SUM(image_completion_tokens) AS image_completion_tokens, SUM(cost_nano_usd) AS cost_nano_usd, SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly WHERE model <> '' GROUP BY 1, 2
)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, model || ' ' || upstream AS value, CAST(bucket.key AS INTEGER) AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(first_token_histogram) AS bucket WHERE model <> '' GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS first_token USING (day_ms, value)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, model || ' ' || upstream AS value, CAST(bucket.key AS INTEGER) AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(duration_histogram) AS bucket WHERE model <> '' GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS duration USING (day_ms, value);
--> statement-breakpoint
INSERT INTO usage_daily
SELECT 'key of team', day_ms, value, requests, errors, cuts, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, reasoning_tokens, audio_prompt_tokens, audio_completion_tokens, image_tokens, image_completion_tokens, cost_nano_usd, estimated_cost_nano_usd,
  COALESCE(first_token.histogram, '{}'), COALESCE(duration.histogram, '{}')
FROM (
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, team_id || ' ' || key_id AS value, SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts, SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens, SUM(cache_write_tokens) AS cache_write_tokens, SUM(cache_write_1h_tokens) AS cache_write_1h_tokens, SUM(completion_tokens) AS completion_tokens, SUM(reasoning_tokens) AS reasoning_tokens, SUM(audio_prompt_tokens) AS audio_prompt_tokens, SUM(audio_completion_tokens) AS audio_completion_tokens, SUM(image_tokens) AS image_tokens, SUM(image_completion_tokens) AS image_completion_tokens, SUM(cost_nano_usd) AS cost_nano_usd, SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly WHERE +team_id <> '' GROUP BY 1, 2
)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, team_id || ' ' || key_id AS value, CAST(bucket.key AS INTEGER) AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(first_token_histogram) AS bucket WHERE +team_id <> '' GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS first_token USING (day_ms, value)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, team_id || ' ' || key_id AS value, CAST(bucket.key AS INTEGER) AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(duration_histogram) AS bucket WHERE +team_id <> '' GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS duration USING (day_ms, value);
--> statement-breakpoint
INSERT INTO usage_daily
SELECT 'model of team', day_ms, value, requests, errors, cuts, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, reasoning_tokens, audio_prompt_tokens, audio_completion_tokens, image_tokens, image_completion_tokens, cost_nano_usd, estimated_cost_nano_usd,
  COALESCE(first_token.histogram, '{}'), COALESCE(duration.histogram, '{}')
FROM (
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, team_id || ' ' || model AS value, SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts, SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens, SUM(cache_write_tokens) AS cache_write_tokens, SUM(cache_write_1h_tokens) AS cache_write_1h_tokens, SUM(completion_tokens) AS completion_tokens, SUM(reasoning_tokens) AS reasoning_tokens, SUM(audio_prompt_tokens) AS audio_prompt_tokens, SUM(audio_completion_tokens) AS audio_completion_tokens, SUM(image_tokens) AS image_tokens, SUM(image_completion_tokens) AS image_completion_tokens, SUM(cost_nano_usd) AS cost_nano_usd, SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly WHERE +team_id <> '' GROUP BY 1, 2
)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, team_id || ' ' || model AS value, CAST(bucket.key AS INTEGER) AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(first_token_histogram) AS bucket WHERE +team_id <> '' GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS first_token USING (day_ms, value)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, team_id || ' ' || model AS value, CAST(bucket.key AS INTEGER) AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(duration_histogram) AS bucket WHERE +team_id <> '' GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS duration USING (day_ms, value);
--> statement-breakpoint
INSERT INTO usage_daily
SELECT 'upstream of team', day_ms, value, requests, errors, cuts, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, reasoning_tokens, audio_prompt_tokens, audio_completion_tokens, image_tokens, image_completion_tokens, cost_nano_usd, estimated_cost_nano_usd,
  COALESCE(first_token.histogram, '{}'), COALESCE(duration.histogram, '{}')
FROM (
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, team_id || ' ' || upstream AS value, SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts, SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens, SUM(cache_write_tokens) AS cache_write_tokens, SUM(cache_write_1h_tokens) AS cache_write_1h_tokens, SUM(completion_tokens) AS completion_tokens, SUM(reasoning_tokens) AS reasoning_tokens, SUM(audio_prompt_tokens) AS audio_prompt_tokens, SUM(audio_completion_tokens) AS audio_completion_tokens, SUM(image_tokens) AS image_tokens, SUM(image_completion_tokens) AS image_completion_tokens, SUM(cost_nano_usd) AS cost_nano_usd, SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly WHERE +team_id <> '' GROUP BY 1, 2
)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, team_id || ' ' || upstream AS value, CAST(bucket.key AS INTEGER) AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(first_token_histogram) AS bucket WHERE +team_id <> '' GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS first_token USING (day_ms, value)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, team_id || ' ' || upstream AS value, CAST(bucket.key AS INTEGER) AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(duration_histogram) AS bucket WHERE +team_id <> '' GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS duration USING (day_ms, value);
