CREATE TABLE `catalog_versions` (
	`number` integer PRIMARY KEY NOT NULL,
	`at_ms` integer NOT NULL,
	`actor` text NOT NULL,
	`action` text NOT NULL,
	`subject` text NOT NULL,
	`created` integer DEFAULT 0 NOT NULL,
	`updated` integer DEFAULT 0 NOT NULL,
	`deleted` integer DEFAULT 0 NOT NULL,
	`adopted` integer DEFAULT 0 NOT NULL,
	`rows` blob NOT NULL
);
