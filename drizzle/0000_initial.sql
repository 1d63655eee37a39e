CREATE TABLE `aliases` (
	`alias` text PRIMARY KEY NOT NULL,
	`model` text NOT NULL,
	`origin` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `audit` (
	`id` text PRIMARY KEY NOT NULL,
	`at_ms` integer NOT NULL,
	`actor` text NOT NULL,
	`action` text NOT NULL,
	`subject` text NOT NULL,
	`detail` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `calls` (
	`request_id` text NOT NULL,
	`number` integer NOT NULL,
	`instance` text NOT NULL,
	`reason` text NOT NULL,
	`upstream` text NOT NULL,
	`upstream_model` text NOT NULL,
	`status` text NOT NULL,
	`http_status` integer,
	`error_code` text,
	`created_ms` integer NOT NULL,
	`duration_ms` integer,
	`first_token_ms` integer,
	`prompt_tokens` integer DEFAULT 0 NOT NULL,
	`cached_tokens` integer DEFAULT 0 NOT NULL,
	`cache_write_tokens` integer DEFAULT 0 NOT NULL,
	`completion_tokens` integer DEFAULT 0 NOT NULL,
	`reasoning_tokens` integer DEFAULT 0 NOT NULL,
	`estimated` integer DEFAULT 0 NOT NULL,
	`reserved_prompt_tokens` integer DEFAULT 0 NOT NULL,
	`reserved_completion_tokens` integer DEFAULT 0 NOT NULL,
	`reserved_nano_usd` integer DEFAULT 0 NOT NULL,
	`cost_nano_usd` integer DEFAULT 0 NOT NULL,
	`price_id` text,
	`upstream_request_id` text,
	PRIMARY KEY(`request_id`, `number`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `calls_open` ON `calls` (`instance`) WHERE "calls"."status" = 'open';--> statement-breakpoint
CREATE TABLE `key_models` (
	`key_id` text NOT NULL,
	`pattern` text NOT NULL,
	PRIMARY KEY(`key_id`, `pattern`),
	FOREIGN KEY (`key_id`) REFERENCES `keys`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `key_secrets` (
	`hash` text PRIMARY KEY NOT NULL,
	`key_id` text NOT NULL,
	`last_four` text NOT NULL,
	`created_ms` integer NOT NULL,
	`expires_ms` integer,
	FOREIGN KEY (`key_id`) REFERENCES `keys`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `key_secrets_key` ON `key_secrets` (`key_id`);--> statement-breakpoint
CREATE TABLE `keys` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`scope` text DEFAULT 'all' NOT NULL,
	`team_id` text,
	`expires_ms` integer,
	`rpm` integer,
	`tpm` integer,
	`concurrency` integer,
	`budget_nano_usd` integer,
	`budget_period` text,
	`metadata` text NOT NULL,
	`created_ms` integer NOT NULL,
	`revoked_ms` integer,
	FOREIGN KEY (`team_id`) REFERENCES `teams`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `migrations` (
	`name` text PRIMARY KEY NOT NULL,
	`applied_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `models` (
	`slug` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`owned_by` text NOT NULL,
	`context_length` integer NOT NULL,
	`max_output_length` integer NOT NULL,
	`input_modalities` text NOT NULL,
	`output_modalities` text NOT NULL,
	`supported_features` text NOT NULL,
	`pricing` text NOT NULL,
	`price_id` text,
	`enabled` integer DEFAULT true NOT NULL,
	`origin` text NOT NULL,
	`created_ms` integer NOT NULL,
	`updated_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `prices` (
	`id` text PRIMARY KEY NOT NULL,
	`model` text NOT NULL,
	`upstream` text,
	`pricing` text NOT NULL,
	`created_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `prices_model` ON `prices` (`model`);--> statement-breakpoint
CREATE TABLE `requests` (
	`id` text PRIMARY KEY NOT NULL,
	`instance` text NOT NULL,
	`key_id` text NOT NULL,
	`model` text NOT NULL,
	`upstream` text NOT NULL,
	`upstream_model` text NOT NULL,
	`status` text NOT NULL,
	`http_status` integer,
	`error_code` text,
	`created_ms` integer NOT NULL,
	`duration_ms` integer,
	`first_token_ms` integer,
	`prompt_tokens` integer DEFAULT 0 NOT NULL,
	`cached_tokens` integer DEFAULT 0 NOT NULL,
	`cache_write_tokens` integer DEFAULT 0 NOT NULL,
	`completion_tokens` integer DEFAULT 0 NOT NULL,
	`reasoning_tokens` integer DEFAULT 0 NOT NULL,
	`estimated` integer DEFAULT 0 NOT NULL,
	`reserved_prompt_tokens` integer DEFAULT 0 NOT NULL,
	`reserved_completion_tokens` integer DEFAULT 0 NOT NULL,
	`reserved_nano_usd` integer DEFAULT 0 NOT NULL,
	`cost_nano_usd` integer DEFAULT 0 NOT NULL,
	`price_id` text,
	`upstream_request_id` text,
	`stream` integer DEFAULT 0 NOT NULL,
	`attempts` integer DEFAULT 1 NOT NULL,
	`user` text
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `requests_open` ON `requests` (`instance`) WHERE "requests"."status" = 'open';--> statement-breakpoint
CREATE TABLE `routes` (
	`model` text NOT NULL,
	`upstream` text NOT NULL,
	`upstream_model` text NOT NULL,
	`priority` integer DEFAULT 0 NOT NULL,
	`weight` integer DEFAULT 1 NOT NULL,
	`pricing` text,
	`price_id` text,
	`enabled` integer DEFAULT true NOT NULL,
	`origin` text NOT NULL,
	PRIMARY KEY(`model`, `upstream`, `upstream_model`),
	FOREIGN KEY (`model`) REFERENCES `models`(`slug`) ON UPDATE no action ON DELETE cascade,
	FOREIGN KEY (`upstream`) REFERENCES `upstreams`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE TABLE `settings` (
	`key` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL,
	`updated_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `teams` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`budget_nano_usd` integer,
	`budget_period` text,
	`metadata` text NOT NULL,
	`created_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `teams_name_unique` ON `teams` (`name`);--> statement-breakpoint
CREATE TABLE `upstreams` (
	`id` text PRIMARY KEY NOT NULL,
	`dialect` text NOT NULL,
	`base_url` text,
	`api_key_ref` text,
	`api_key_sealed` text,
	`local` integer DEFAULT false NOT NULL,
	`enabled` integer DEFAULT true NOT NULL,
	`deadlines` text NOT NULL,
	`options` text NOT NULL,
	`origin` text NOT NULL,
	`created_ms` integer NOT NULL,
	`updated_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `usage_hourly` (
	`hour_ms` integer NOT NULL,
	`key_id` text NOT NULL,
	`model` text NOT NULL,
	`upstream` text NOT NULL,
	`requests` integer DEFAULT 0 NOT NULL,
	`errors` integer DEFAULT 0 NOT NULL,
	`cuts` integer DEFAULT 0 NOT NULL,
	`prompt_tokens` integer DEFAULT 0 NOT NULL,
	`cached_tokens` integer DEFAULT 0 NOT NULL,
	`cache_write_tokens` integer DEFAULT 0 NOT NULL,
	`completion_tokens` integer DEFAULT 0 NOT NULL,
	`reasoning_tokens` integer DEFAULT 0 NOT NULL,
	`cost_nano_usd` integer DEFAULT 0 NOT NULL,
	`estimated_cost_nano_usd` integer DEFAULT 0 NOT NULL,
	`first_token_histogram` text DEFAULT '{}' NOT NULL,
	`duration_histogram` text DEFAULT '{}' NOT NULL,
	PRIMARY KEY(`hour_ms`, `key_id`, `model`, `upstream`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `usage_hourly_key` ON `usage_hourly` (`key_id`,`hour_ms`);--> statement-breakpoint
CREATE VIEW `usage_daily` AS 
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, key_id, model, upstream,
    SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts,
    SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens,
    SUM(cache_write_tokens) AS cache_write_tokens, SUM(completion_tokens) AS completion_tokens,
    SUM(reasoning_tokens) AS reasoning_tokens, SUM(cost_nano_usd) AS cost_nano_usd,
    SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly GROUP BY 1, 2, 3, 4;