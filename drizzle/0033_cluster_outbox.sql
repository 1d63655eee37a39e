CREATE TABLE `cluster_outbox` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`request_id` text,
	`refusal` text
);
--> statement-breakpoint
CREATE INDEX `cluster_outbox_request` ON `cluster_outbox` (`request_id`) WHERE "cluster_outbox"."request_id" IS NOT NULL;