CREATE TABLE `batch_files` (
	`id` text PRIMARY KEY NOT NULL,
	`key_id` text NOT NULL,
	`purpose` text NOT NULL,
	`filename` text NOT NULL,
	`bytes` integer NOT NULL,
	`created_ms` integer NOT NULL,
	`expires_ms` integer
);
--> statement-breakpoint
CREATE INDEX `batch_files_key` ON `batch_files` (`key_id`,`id`);--> statement-breakpoint
CREATE INDEX `batch_files_expires` ON `batch_files` (`expires_ms`);--> statement-breakpoint
CREATE TABLE `batches` (
	`id` text PRIMARY KEY NOT NULL,
	`key_id` text NOT NULL,
	`api` text NOT NULL,
	`endpoint` text NOT NULL,
	`input_file_id` text NOT NULL,
	`state` text NOT NULL,
	`created_ms` integer NOT NULL,
	`expires_ms` integer NOT NULL,
	`detail` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `batches_key` ON `batches` (`key_id`,`id`);--> statement-breakpoint
CREATE INDEX `batches_state` ON `batches` (`state`);