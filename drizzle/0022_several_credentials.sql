CREATE TABLE `upstream_credentials` (
	`upstream` text NOT NULL,
	`number` integer NOT NULL,
	`ref` text,
	`sealed` text,
	PRIMARY KEY(`upstream`, `number`),
	FOREIGN KEY (`upstream`) REFERENCES `upstreams`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
INSERT INTO upstream_credentials (upstream, number, ref, sealed)
SELECT id, 1, api_key_ref, CASE WHEN api_key_ref IS NULL THEN api_key_sealed END FROM upstreams
WHERE api_key_ref IS NOT NULL OR api_key_sealed IS NOT NULL;
--> statement-breakpoint
ALTER TABLE `upstreams` DROP COLUMN `api_key_ref`;--> statement-breakpoint
ALTER TABLE `upstreams` DROP COLUMN `api_key_sealed`;