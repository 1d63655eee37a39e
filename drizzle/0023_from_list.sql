ALTER TABLE `models` ADD `from_list` text DEFAULT '[]' NOT NULL;--> statement-breakpoint
ALTER TABLE `routes` ADD `from_list` text DEFAULT '[]' NOT NULL;