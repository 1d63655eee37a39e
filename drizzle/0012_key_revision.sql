ALTER TABLE `keys` ADD `revision` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX `keys_revision` ON `keys` (`revision`);