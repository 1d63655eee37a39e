CREATE TABLE `instances` (
	`id` text PRIMARY KEY NOT NULL,
	`epoch` integer NOT NULL,
	`started_ms` integer NOT NULL,
	`lease_ends_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `instances_epoch_unique` ON `instances` (`epoch`);