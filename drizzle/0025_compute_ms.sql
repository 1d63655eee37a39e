ALTER TABLE `calls` ADD `compute_ms` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `requests` ADD `compute_ms` integer DEFAULT 0 NOT NULL;