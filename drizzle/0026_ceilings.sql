ALTER TABLE `keys` ADD `ceilings` text DEFAULT '{}' NOT NULL;--> statement-breakpoint
-- What somebody else than its owner has said last of a member's key, as the audit log has it.
WITH `bounds` (`name`) AS (
  VALUES ('scope'), ('models'), ('rpm'), ('tpm'), ('concurrency'), ('budget_nano_usd'), ('budget_period'), ('allowed_ips'), ('expires_ms')
), `said` AS (
  SELECT
    `keys`.`id` AS `key_id`,
    `bounds`.`name` AS `name`,
    `audit`.`detail` -> ('$.after.' || `bounds`.`name`) AS `value`,
    ROW_NUMBER() OVER (PARTITION BY `keys`.`id`, `bounds`.`name` ORDER BY `audit`.`id` DESC) AS `age`
  FROM `keys`
  JOIN `audit` ON `audit`.`subject` = `keys`.`id` AND `audit`.`action` = 'keys.edit' AND `audit`.`actor` <> `keys`.`owner_id`
  JOIN `bounds` ON json_type(`audit`.`detail`, '$.after.' || `bounds`.`name`) IS NOT NULL
)
UPDATE `keys` SET `ceilings` = (
  SELECT json_group_object(`name`, json(`value`)) FROM `said`
  WHERE `key_id` = `keys`.`id` AND `age` = 1 AND `value` NOT IN ('null', '[]', '"all"')
)
WHERE `owner_id` IS NOT NULL;--> statement-breakpoint
-- Of a budget, the log has the amount or the period alone where only that was changed.
UPDATE `keys` SET `ceilings` = json_set(`ceilings`, '$.budget_period', `budget_period`)
WHERE json_type(`ceilings`, '$.budget_nano_usd') IS NOT NULL AND json_type(`ceilings`, '$.budget_period') IS NULL AND `budget_period` IS NOT NULL;--> statement-breakpoint
UPDATE `keys` SET `ceilings` = json_remove(`ceilings`, '$.budget_nano_usd', '$.budget_period')
WHERE (json_type(`ceilings`, '$.budget_nano_usd') IS NULL) <> (json_type(`ceilings`, '$.budget_period') IS NULL);
