DROP INDEX `usage_hourly_key`;--> statement-breakpoint
CREATE INDEX `usage_hourly_key` ON `usage_hourly` (`key_id`,`hour_ms`,`cost_nano_usd`);