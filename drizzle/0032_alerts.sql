CREATE TABLE `alert_deliveries` (
	`id` text PRIMARY KEY NOT NULL,
	`target_id` text NOT NULL,
	`at_ms` integer NOT NULL,
	`kind` text NOT NULL,
	`alerts` text NOT NULL,
	`more` integer NOT NULL,
	`state` text NOT NULL,
	`attempts` integer NOT NULL,
	`next_ms` integer NOT NULL,
	`http_status` integer,
	`error` text,
	`done_ms` integer,
	FOREIGN KEY (`target_id`) REFERENCES `alert_targets`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE INDEX `alert_deliveries_target` ON `alert_deliveries` (`target_id`,`id`);--> statement-breakpoint
CREATE TABLE `alert_events` (
	`target_id` text NOT NULL,
	`id` text NOT NULL,
	`alert` text NOT NULL,
	`told` text,
	`started_ms` integer NOT NULL,
	`ended_ms` integer,
	PRIMARY KEY(`target_id`, `id`),
	FOREIGN KEY (`target_id`) REFERENCES `alert_targets`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE TABLE `alert_targets` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`format` text NOT NULL,
	`origin` text NOT NULL,
	`sealed` text NOT NULL,
	`topics` text,
	`created_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `alert_targets_name_unique` ON `alert_targets` (`name`);