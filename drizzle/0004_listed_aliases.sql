ALTER TABLE `aliases` ADD `listed` integer DEFAULT true NOT NULL;--> statement-breakpoint
ALTER TABLE `models` ADD `from_wildcard` integer DEFAULT false NOT NULL;--> statement-breakpoint
UPDATE `models` SET `from_wildcard` = true, `listed` = true WHERE `listed` = false;
