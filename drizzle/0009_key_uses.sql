CREATE TABLE `key_uses` (
	`key_id` text PRIMARY KEY NOT NULL,
	`last_used_ms` integer NOT NULL,
	`last_model` text NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO `key_uses` SELECT `key_id`, MAX(`created_ms`), `model` FROM `requests` GROUP BY `key_id`;