DROP VIEW `usage_daily`;--> statement-breakpoint
CREATE TABLE `__new_usage_hourly` (
	`hour_ms` integer NOT NULL,
	`key_id` text NOT NULL,
	`team_id` text DEFAULT '' NOT NULL,
	`model` text NOT NULL,
	`upstream` text NOT NULL,
	`endpoint` text DEFAULT 'chat' NOT NULL,
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
	PRIMARY KEY(`hour_ms`, `key_id`, `team_id`, `model`, `upstream`, `endpoint`)
) WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO `__new_usage_hourly`("hour_ms", "key_id", "team_id", "model", "upstream", "endpoint", "requests", "errors", "cuts", "prompt_tokens", "cached_tokens", "cache_write_tokens", "completion_tokens", "reasoning_tokens", "cost_nano_usd", "estimated_cost_nano_usd", "first_token_histogram", "duration_histogram") SELECT "hour_ms", "key_id", COALESCE((SELECT "team_id" FROM `keys` WHERE `id` = "key_id"), ''), "model", "upstream", 'chat', "requests", "errors", "cuts", "prompt_tokens", "cached_tokens", "cache_write_tokens", "completion_tokens", "reasoning_tokens", "cost_nano_usd", "estimated_cost_nano_usd", "first_token_histogram", "duration_histogram" FROM `usage_hourly`;--> statement-breakpoint
DROP TABLE `usage_hourly`;--> statement-breakpoint
ALTER TABLE `__new_usage_hourly` RENAME TO `usage_hourly`;--> statement-breakpoint
CREATE INDEX `usage_hourly_key` ON `usage_hourly` (`key_id`,`hour_ms`);--> statement-breakpoint
CREATE INDEX `usage_hourly_team` ON `usage_hourly` (`team_id`,`hour_ms`);--> statement-breakpoint
ALTER TABLE `calls` ADD `lane` text DEFAULT 'translated' NOT NULL;--> statement-breakpoint
ALTER TABLE `requests` ADD `team_id` text;--> statement-breakpoint
ALTER TABLE `requests` ADD `endpoint` text DEFAULT 'chat' NOT NULL;--> statement-breakpoint
ALTER TABLE `requests` ADD `lane` text DEFAULT 'translated' NOT NULL;--> statement-breakpoint
UPDATE `requests` SET `team_id` = (SELECT `team_id` FROM `keys` WHERE `id` = `requests`.`key_id`) WHERE `key_id` IN (SELECT `id` FROM `keys` WHERE `team_id` IS NOT NULL);