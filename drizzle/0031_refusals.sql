CREATE TABLE `refusals_hourly` (
	`hour_ms` integer NOT NULL,
	`key_id` text NOT NULL,
	`team_id` text NOT NULL,
	`code` text NOT NULL,
	`refused` integer DEFAULT 0 NOT NULL,
	`last_ms` integer NOT NULL,
	PRIMARY KEY(`hour_ms`, `key_id`, `team_id`, `code`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `refusals_hourly_key` ON `refusals_hourly` (`key_id`,`last_ms`,`code`);--> statement-breakpoint
CREATE INDEX `refusals_hourly_team` ON `refusals_hourly` (`team_id`,`last_ms`,`code`) WHERE "refusals_hourly"."team_id" <> '';