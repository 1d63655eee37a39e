-- Of a request that took several calls, each has a row from here on, the first one too: what the others have not, it used.
INSERT INTO `calls` (
	`request_id`, `number`, `instance`, `reason`, `upstream`, `upstream_model`, `lane`, `price_id`, `created_ms`,
	`reserved_prompt_tokens`, `reserved_completion_tokens`, `reserved_nano_usd`, `status`, `http_status`, `error_code`,
	`duration_ms`, `first_token_ms`, `estimated`, `mode`, `reported_nano_usd`, `unpriced`, `upstream_request_id`,
	`credential`, `prompt_tokens`, `cached_tokens`, `cache_write_tokens`, `cache_write_1h_tokens`, `completion_tokens`,
	`reasoning_tokens`, `audio_prompt_tokens`, `audio_completion_tokens`, `image_tokens`, `image_completion_tokens`,
	`tool_prompt_tokens`, `web_searches`, `compute_ms`, `cost_nano_usd`
)
SELECT
	r.`id`, 1, r.`instance`, 'first', iif(r.`first_call` IS NULL, r.`upstream`, r.`first_call` ->> '$.upstream'),
	iif(r.`first_call` IS NULL, r.`upstream_model`, r.`first_call` ->> '$.upstream_model'),
	iif(r.`first_call` IS NULL, r.`lane`, r.`first_call` ->> '$.lane'),
	iif(r.`first_call` IS NULL, r.`price_id`, r.`first_call` ->> '$.price_id'), r.`created_ms`, r.`reserved_prompt_tokens`,
	r.`reserved_completion_tokens`, r.`reserved_nano_usd`,
	iif(r.`first_call` IS NULL, r.`status`, r.`first_call` ->> '$.status'),
	iif(r.`first_call` IS NULL, r.`http_status`, r.`first_call` ->> '$.http_status'),
	iif(r.`first_call` IS NULL, r.`error_code`, r.`first_call` ->> '$.error_code'),
	iif(r.`first_call` IS NULL, r.`duration_ms`, r.`first_call` ->> '$.duration_ms'),
	iif(r.`first_call` IS NULL, r.`first_token_ms`, r.`first_call` ->> '$.first_token_ms'),
	iif(r.`first_call` IS NULL, r.`estimated`, r.`first_call` ->> '$.estimated'),
	iif(r.`first_call` IS NULL, r.`mode`, r.`first_call` ->> '$.mode'),
	iif(r.`first_call` IS NULL, r.`reported_nano_usd`, r.`first_call` ->> '$.reported_nano_usd'),
	coalesce(iif(r.`first_call` IS NULL, r.`unpriced`, r.`first_call` ->> '$.unpriced'), 0),
	iif(r.`first_call` IS NULL, r.`upstream_request_id`, r.`first_call` ->> '$.upstream_request_id'),
	iif(r.`first_call` IS NULL, r.`credential`, r.`first_call` ->> '$.credential'),
	max(0, r.`prompt_tokens` - o.`prompt_tokens`), max(0, r.`cached_tokens` - o.`cached_tokens`),
	max(0, r.`cache_write_tokens` - o.`cache_write_tokens`), max(0, r.`cache_write_1h_tokens` - o.`cache_write_1h_tokens`),
	max(0, r.`completion_tokens` - o.`completion_tokens`), max(0, r.`reasoning_tokens` - o.`reasoning_tokens`),
	max(0, r.`audio_prompt_tokens` - o.`audio_prompt_tokens`),
	max(0, r.`audio_completion_tokens` - o.`audio_completion_tokens`), max(0, r.`image_tokens` - o.`image_tokens`),
	max(0, r.`image_completion_tokens` - o.`image_completion_tokens`),
	max(0, r.`tool_prompt_tokens` - o.`tool_prompt_tokens`), max(0, r.`web_searches` - o.`web_searches`),
	max(0, r.`compute_ms` - o.`compute_ms`), max(0, r.`cost_nano_usd` - o.`cost_nano_usd`)
FROM (
	SELECT `request_id`, sum(`prompt_tokens`) AS `prompt_tokens`, sum(`cached_tokens`) AS `cached_tokens`,
	sum(`cache_write_tokens`) AS `cache_write_tokens`, sum(`cache_write_1h_tokens`) AS `cache_write_1h_tokens`,
	sum(`completion_tokens`) AS `completion_tokens`, sum(`reasoning_tokens`) AS `reasoning_tokens`,
	sum(`audio_prompt_tokens`) AS `audio_prompt_tokens`, sum(`audio_completion_tokens`) AS `audio_completion_tokens`,
	sum(`image_tokens`) AS `image_tokens`, sum(`image_completion_tokens`) AS `image_completion_tokens`,
	sum(`tool_prompt_tokens`) AS `tool_prompt_tokens`, sum(`web_searches`) AS `web_searches`,
	sum(`compute_ms`) AS `compute_ms`, sum(`cost_nano_usd`) AS `cost_nano_usd`
	FROM `calls` GROUP BY `request_id`
) o JOIN `requests` r ON r.`id` = o.`request_id` WHERE r.`status` <> 'open';
--> statement-breakpoint
-- What a call that is open says of those before it, their own rows say.
INSERT INTO `calls` (
	`request_id`, `number`, `instance`, `reason`, `upstream`, `upstream_model`, `lane`, `price_id`, `created_ms`,
	`reserved_prompt_tokens`, `reserved_completion_tokens`, `reserved_nano_usd`, `status`, `http_status`, `error_code`,
	`duration_ms`, `first_token_ms`, `estimated`, `mode`, `reported_nano_usd`, `unpriced`, `upstream_request_id`,
	`credential`, `prompt_tokens`, `cached_tokens`, `cache_write_tokens`, `cache_write_1h_tokens`, `completion_tokens`,
	`reasoning_tokens`, `audio_prompt_tokens`, `audio_completion_tokens`, `image_tokens`, `image_completion_tokens`,
	`tool_prompt_tokens`, `web_searches`, `compute_ms`, `cost_nano_usd`
)
SELECT
	c.`request_id`, e.value ->> '$.number', coalesce(r.`instance`, c.`instance`), 'first',
	coalesce(r.`upstream`, c.`upstream`), coalesce(r.`upstream_model`, c.`upstream_model`), coalesce(r.`lane`, c.`lane`),
	iif(r.`id` IS NULL, c.`price_id`, r.`price_id`), coalesce(r.`created_ms`, c.`created_ms`),
	coalesce(r.`reserved_prompt_tokens`, c.`reserved_prompt_tokens`),
	coalesce(r.`reserved_completion_tokens`, c.`reserved_completion_tokens`),
	coalesce(r.`reserved_nano_usd`, c.`reserved_nano_usd`), e.value ->> '$.status', NULL, NULL, NULL, NULL, 0,
	e.value ->> '$.mode', e.value ->> '$.reported_nano_usd', coalesce(e.value ->> '$.unpriced', 0), NULL, NULL,
	coalesce(e.value ->> '$.prompt_tokens', 0), coalesce(e.value ->> '$.cached_tokens', 0),
	coalesce(e.value ->> '$.cache_write_tokens', 0), coalesce(e.value ->> '$.cache_write_1h_tokens', 0),
	coalesce(e.value ->> '$.completion_tokens', 0), coalesce(e.value ->> '$.reasoning_tokens', 0),
	coalesce(e.value ->> '$.audio_prompt_tokens', 0), coalesce(e.value ->> '$.audio_completion_tokens', 0),
	coalesce(e.value ->> '$.image_tokens', 0), coalesce(e.value ->> '$.image_completion_tokens', 0),
	coalesce(e.value ->> '$.tool_prompt_tokens', 0), coalesce(e.value ->> '$.web_searches', 0),
	coalesce(e.value ->> '$.compute_ms', 0), coalesce(e.value ->> '$.cost_nano_usd', 0)
FROM `calls` c LEFT JOIN `requests` r ON r.`id` = c.`request_id`, json_each(c.`ended_before`) e WHERE coalesce(r.`status`, 'open') = 'open'
ON CONFLICT DO UPDATE SET `status` = excluded.`status`, `mode` = excluded.`mode`, `reported_nano_usd` = excluded.`reported_nano_usd`,
	`unpriced` = excluded.`unpriced`, `prompt_tokens` = excluded.`prompt_tokens`, `cached_tokens` = excluded.`cached_tokens`,
	`cache_write_tokens` = excluded.`cache_write_tokens`, `cache_write_1h_tokens` = excluded.`cache_write_1h_tokens`,
	`completion_tokens` = excluded.`completion_tokens`, `reasoning_tokens` = excluded.`reasoning_tokens`,
	`audio_prompt_tokens` = excluded.`audio_prompt_tokens`, `audio_completion_tokens` = excluded.`audio_completion_tokens`,
	`image_tokens` = excluded.`image_tokens`, `image_completion_tokens` = excluded.`image_completion_tokens`,
	`tool_prompt_tokens` = excluded.`tool_prompt_tokens`, `web_searches` = excluded.`web_searches`,
	`compute_ms` = excluded.`compute_ms`, `cost_nano_usd` = excluded.`cost_nano_usd`;
--> statement-breakpoint
ALTER TABLE `calls` DROP COLUMN `ended_before`;
--> statement-breakpoint
ALTER TABLE `requests` DROP COLUMN `first_call`;
