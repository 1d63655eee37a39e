ALTER TABLE `calls` ADD `credential` integer;--> statement-breakpoint
ALTER TABLE `requests` ADD `credential` integer;