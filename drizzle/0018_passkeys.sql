CREATE TABLE `admin_passkeys` (
	`id` text PRIMARY KEY NOT NULL,
	`admin_id` text NOT NULL,
	`name` text NOT NULL,
	`credential_id` text NOT NULL,
	`public_key` text NOT NULL,
	`counter` integer NOT NULL,
	`transports` text NOT NULL,
	`rp_id` text NOT NULL,
	`created_ms` integer NOT NULL,
	`used_ms` integer,
	FOREIGN KEY (`admin_id`) REFERENCES `admins`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `admin_passkeys_credential_id_unique` ON `admin_passkeys` (`credential_id`);--> statement-breakpoint
CREATE INDEX `admin_passkeys_admin` ON `admin_passkeys` (`admin_id`);