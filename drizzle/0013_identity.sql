CREATE TABLE `admin_sessions` (
	`id` text PRIMARY KEY NOT NULL,
	`admin_id` text NOT NULL,
	`hash` text NOT NULL,
	`address` text NOT NULL,
	`agent` text NOT NULL,
	`created_ms` integer NOT NULL,
	`seen_ms` integer NOT NULL,
	FOREIGN KEY (`admin_id`) REFERENCES `admins`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `admin_sessions_hash_unique` ON `admin_sessions` (`hash`);--> statement-breakpoint
CREATE INDEX `admin_sessions_admin` ON `admin_sessions` (`admin_id`);--> statement-breakpoint
CREATE TABLE `admin_tokens` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`scope` text NOT NULL,
	`hash` text NOT NULL,
	`last_four` text NOT NULL,
	`created_ms` integer NOT NULL,
	`expires_ms` integer,
	`revoked_ms` integer
);
--> statement-breakpoint
CREATE UNIQUE INDEX `admin_tokens_hash_unique` ON `admin_tokens` (`hash`);--> statement-breakpoint
CREATE TABLE `admins` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`role` text NOT NULL,
	`team_id` text,
	`password_hash` text,
	`oidc_subject` text,
	`code_hash` text,
	`code_expires_ms` integer,
	`created_ms` integer NOT NULL,
	`disabled_ms` integer,
	FOREIGN KEY (`team_id`) REFERENCES `teams`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `admins_name_unique` ON `admins` (`name`);--> statement-breakpoint
CREATE UNIQUE INDEX `admins_oidc_subject_unique` ON `admins` (`oidc_subject`);--> statement-breakpoint
ALTER TABLE `keys` ADD `owner_id` text;