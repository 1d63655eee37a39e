DROP INDEX `usage_hourly_team`;--> statement-breakpoint
CREATE INDEX `usage_hourly_team` ON `usage_hourly` (`team_id`,`hour_ms`) WHERE "usage_hourly"."team_id" <> '';