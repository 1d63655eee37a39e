ALTER TABLE `teams` ADD `scope` text DEFAULT 'all' NOT NULL;--> statement-breakpoint
ALTER TABLE `teams` ADD `models` text DEFAULT '[]' NOT NULL;--> statement-breakpoint
ALTER TABLE `teams` ADD `rpm` integer;--> statement-breakpoint
ALTER TABLE `teams` ADD `tpm` integer;--> statement-breakpoint
ALTER TABLE `teams` ADD `concurrency` integer;--> statement-breakpoint
ALTER TABLE `teams` ADD `max_keys` integer DEFAULT 10;