ALTER TABLE `models` ADD `listed` integer DEFAULT true NOT NULL;--> statement-breakpoint
ALTER TABLE `routes` ADD `context_length` integer;--> statement-breakpoint
ALTER TABLE `routes` ADD `max_output_length` integer;--> statement-breakpoint
ALTER TABLE `routes` ADD `supported_features` text;