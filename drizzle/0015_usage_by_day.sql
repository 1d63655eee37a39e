CREATE TABLE `usage_daily` (
	`dimension` text NOT NULL,
	`day_ms` integer NOT NULL,
	`value` text NOT NULL,
	`requests` integer DEFAULT 0 NOT NULL,
	`errors` integer DEFAULT 0 NOT NULL,
	`cuts` integer DEFAULT 0 NOT NULL,
	`prompt_tokens` integer DEFAULT 0 NOT NULL,
	`cached_tokens` integer DEFAULT 0 NOT NULL,
	`cache_write_tokens` integer DEFAULT 0 NOT NULL,
	`cache_write_1h_tokens` integer DEFAULT 0 NOT NULL,
	`completion_tokens` integer DEFAULT 0 NOT NULL,
	`reasoning_tokens` integer DEFAULT 0 NOT NULL,
	`audio_prompt_tokens` integer DEFAULT 0 NOT NULL,
	`audio_completion_tokens` integer DEFAULT 0 NOT NULL,
	`image_tokens` integer DEFAULT 0 NOT NULL,
	`image_completion_tokens` integer DEFAULT 0 NOT NULL,
	`cost_nano_usd` integer DEFAULT 0 NOT NULL,
	`estimated_cost_nano_usd` integer DEFAULT 0 NOT NULL,
	`first_token_histogram` text DEFAULT '{}' NOT NULL,
	`duration_histogram` text DEFAULT '{}' NOT NULL,
	PRIMARY KEY(`dimension`, `day_ms`, `value`)
) WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO usage_daily
SELECT 'key', day_ms, value, requests, errors, cuts, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, reasoning_tokens, audio_prompt_tokens, audio_completion_tokens, image_tokens, image_completion_tokens, cost_nano_usd, estimated_cost_nano_usd,
  COALESCE(first_token.histogram, '{}'), COALESCE(duration.histogram, '{}')
FROM (
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, key_id AS value, SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts, SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens, SUM(cache_write_tokens) AS cache_write_tokens, SUM(cache_write_1h_tokens) AS cache_write_1h_tokens, SUM(completion_tokens) AS completion_tokens, SUM(reasoning_tokens) AS reasoning_tokens, SUM(audio_prompt_tokens) AS audio_prompt_tokens, SUM(audio_completion_tokens) AS audio_completion_tokens, SUM(image_tokens) AS image_tokens, SUM(image_completion_tokens) AS image_completion_tokens, SUM(cost_nano_usd) AS cost_nano_usd, SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly GROUP BY 1, 2
)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, key_id AS value, bucket.key AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(first_token_histogram) AS bucket GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS first_token USING (day_ms, value)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, key_id AS value, bucket.key AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(duration_histogram) AS bucket GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS duration USING (day_ms, value);
--> statement-breakpoint
INSERT INTO usage_daily
SELECT 'team', day_ms, value, requests, errors, cuts, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, reasoning_tokens, audio_prompt_tokens, audio_completion_tokens, image_tokens, image_completion_tokens, cost_nano_usd, estimated_cost_nano_usd,
  COALESCE(first_token.histogram, '{}'), COALESCE(duration.histogram, '{}')
FROM (
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, team_id AS value, SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts, SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens, SUM(cache_write_tokens) AS cache_write_tokens, SUM(cache_write_1h_tokens) AS cache_write_1h_tokens, SUM(completion_tokens) AS completion_tokens, SUM(reasoning_tokens) AS reasoning_tokens, SUM(audio_prompt_tokens) AS audio_prompt_tokens, SUM(audio_completion_tokens) AS audio_completion_tokens, SUM(image_tokens) AS image_tokens, SUM(image_completion_tokens) AS image_completion_tokens, SUM(cost_nano_usd) AS cost_nano_usd, SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly GROUP BY 1, 2
)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, team_id AS value, bucket.key AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(first_token_histogram) AS bucket GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS first_token USING (day_ms, value)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, team_id AS value, bucket.key AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(duration_histogram) AS bucket GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS duration USING (day_ms, value);
--> statement-breakpoint
INSERT INTO usage_daily
SELECT 'model', day_ms, value, requests, errors, cuts, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, reasoning_tokens, audio_prompt_tokens, audio_completion_tokens, image_tokens, image_completion_tokens, cost_nano_usd, estimated_cost_nano_usd,
  COALESCE(first_token.histogram, '{}'), COALESCE(duration.histogram, '{}')
FROM (
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, model AS value, SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts, SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens, SUM(cache_write_tokens) AS cache_write_tokens, SUM(cache_write_1h_tokens) AS cache_write_1h_tokens, SUM(completion_tokens) AS completion_tokens, SUM(reasoning_tokens) AS reasoning_tokens, SUM(audio_prompt_tokens) AS audio_prompt_tokens, SUM(audio_completion_tokens) AS audio_completion_tokens, SUM(image_tokens) AS image_tokens, SUM(image_completion_tokens) AS image_completion_tokens, SUM(cost_nano_usd) AS cost_nano_usd, SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly GROUP BY 1, 2
)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, model AS value, bucket.key AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(first_token_histogram) AS bucket GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS first_token USING (day_ms, value)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, model AS value, bucket.key AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(duration_histogram) AS bucket GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS duration USING (day_ms, value);
--> statement-breakpoint
INSERT INTO usage_daily
SELECT 'upstream', day_ms, value, requests, errors, cuts, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, reasoning_tokens, audio_prompt_tokens, audio_completion_tokens, image_tokens, image_completion_tokens, cost_nano_usd, estimated_cost_nano_usd,
  COALESCE(first_token.histogram, '{}'), COALESCE(duration.histogram, '{}')
FROM (
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, upstream AS value, SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts, SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens, SUM(cache_write_tokens) AS cache_write_tokens, SUM(cache_write_1h_tokens) AS cache_write_1h_tokens, SUM(completion_tokens) AS completion_tokens, SUM(reasoning_tokens) AS reasoning_tokens, SUM(audio_prompt_tokens) AS audio_prompt_tokens, SUM(audio_completion_tokens) AS audio_completion_tokens, SUM(image_tokens) AS image_tokens, SUM(image_completion_tokens) AS image_completion_tokens, SUM(cost_nano_usd) AS cost_nano_usd, SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly GROUP BY 1, 2
)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, upstream AS value, bucket.key AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(first_token_histogram) AS bucket GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS first_token USING (day_ms, value)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, upstream AS value, bucket.key AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(duration_histogram) AS bucket GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS duration USING (day_ms, value);
--> statement-breakpoint
INSERT INTO usage_daily
SELECT 'endpoint', day_ms, value, requests, errors, cuts, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, reasoning_tokens, audio_prompt_tokens, audio_completion_tokens, image_tokens, image_completion_tokens, cost_nano_usd, estimated_cost_nano_usd,
  COALESCE(first_token.histogram, '{}'), COALESCE(duration.histogram, '{}')
FROM (
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, endpoint AS value, SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts, SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens, SUM(cache_write_tokens) AS cache_write_tokens, SUM(cache_write_1h_tokens) AS cache_write_1h_tokens, SUM(completion_tokens) AS completion_tokens, SUM(reasoning_tokens) AS reasoning_tokens, SUM(audio_prompt_tokens) AS audio_prompt_tokens, SUM(audio_completion_tokens) AS audio_completion_tokens, SUM(image_tokens) AS image_tokens, SUM(image_completion_tokens) AS image_completion_tokens, SUM(cost_nano_usd) AS cost_nano_usd, SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly GROUP BY 1, 2
)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, endpoint AS value, bucket.key AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(first_token_histogram) AS bucket GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS first_token USING (day_ms, value)
LEFT JOIN (
  SELECT day_ms, value, json_group_object(bucket, n) AS histogram FROM (
    SELECT hour_ms - hour_ms % 86400000 AS day_ms, endpoint AS value, bucket.key AS bucket, SUM(bucket.value) AS n
    FROM usage_hourly, json_each(duration_histogram) AS bucket GROUP BY 1, 2, 3
  ) GROUP BY 1, 2
) AS duration USING (day_ms, value);
