CREATE TABLE `catalog_entries` (
	`kind` text NOT NULL,
	`name` text NOT NULL,
	`origin` text NOT NULL,
	`fields` text NOT NULL,
	PRIMARY KEY(`kind`, `name`, `origin`)
);
--> statement-breakpoint
INSERT INTO catalog_entries (kind, name, origin, fields)
SELECT 'upstreams', id, origin, json_object(
	'id', id, 'dialect', dialect, 'baseUrl', base_url,
	'apiKeyRef', json((SELECT CASE count(*) WHEN 0 THEN NULL WHEN 1 THEN json_quote(max(ref)) ELSE json_group_array(ref ORDER BY number) END
		FROM upstream_credentials WHERE upstream = upstreams.id AND ref IS NOT NULL)),
	'local', json(iif(local, 'true', 'false')), 'enabled', json(iif(enabled, 'true', 'false')),
	'deadlines', json(deadlines), 'options', json(options), 'origin', origin, 'createdMs', created_ms, 'updatedMs', updated_ms)
FROM upstreams ORDER BY upstreams.rowid;
--> statement-breakpoint
-- A command is a file's alone: of an upstream that was changed by hand, what was set stays, and its command is the file's to say.
INSERT INTO catalog_entries (kind, name, origin, fields)
SELECT kind, name, 'file', json_set(fields, '$.origin', 'file') FROM catalog_entries
WHERE kind = 'upstreams' AND origin = 'admin' AND json_extract(fields, '$.options.process') IS NOT NULL;
--> statement-breakpoint
UPDATE catalog_entries SET fields = json_remove(fields, '$.options.process', '$.createdMs')
WHERE kind = 'upstreams' AND origin = 'admin' AND json_extract(fields, '$.options.process') IS NOT NULL;
--> statement-breakpoint
INSERT INTO catalog_entries (kind, name, origin, fields)
SELECT 'models', slug, origin, json_object(
	'slug', slug, 'name', name, 'ownedBy', owned_by, 'contextLength', context_length, 'maxOutputLength', max_output_length,
	'inputModalities', json(input_modalities), 'outputModalities', json(output_modalities),
	'supportedFeatures', json(supported_features), 'pricing', json(pricing), 'priceId', price_id,
	'enabled', json(iif(enabled, 'true', 'false')), 'listed', json(iif(listed, 'true', 'false')),
	'fromWildcard', json(iif(from_wildcard, 'true', 'false')), 'fromList', json(from_list),
	'origin', origin, 'createdMs', created_ms, 'updatedMs', updated_ms)
FROM models ORDER BY rowid;
--> statement-breakpoint
INSERT INTO catalog_entries (kind, name, origin, fields)
SELECT 'routes', model || ' ' || upstream || ' ' || upstream_model, origin, json_object(
	'model', model, 'upstream', upstream, 'upstreamModel', upstream_model, 'priority', priority, 'weight', weight,
	'pricing', json(pricing), 'priceId', price_id, 'contextLength', context_length, 'maxOutputLength', max_output_length,
	'supportedFeatures', json(supported_features), 'options', json(options), 'fromList', json(from_list),
	'enabled', json(iif(enabled, 'true', 'false')), 'origin', origin)
FROM routes ORDER BY rowid;
--> statement-breakpoint
INSERT INTO catalog_entries (kind, name, origin, fields)
SELECT 'aliases', alias, origin, json_object(
	'alias', alias, 'model', model, 'listed', json(iif(listed, 'true', 'false')), 'origin', origin)
FROM aliases ORDER BY rowid;
--> statement-breakpoint
CREATE TABLE `__new_upstream_credentials` (
	`upstream` text NOT NULL,
	`number` integer NOT NULL,
	`sealed` text NOT NULL,
	PRIMARY KEY(`upstream`, `number`)
);
--> statement-breakpoint
INSERT INTO `__new_upstream_credentials`("upstream", "number", "sealed") SELECT "upstream", "number", "sealed" FROM `upstream_credentials` WHERE "sealed" IS NOT NULL;--> statement-breakpoint
DROP TABLE `upstream_credentials`;--> statement-breakpoint
ALTER TABLE `__new_upstream_credentials` RENAME TO `upstream_credentials`;--> statement-breakpoint
DROP TABLE `aliases`;--> statement-breakpoint
DROP TABLE `routes`;--> statement-breakpoint
DROP TABLE `models`;--> statement-breakpoint
DROP TABLE `upstreams`;--> statement-breakpoint
ALTER TABLE `catalog_versions` DROP COLUMN `adopted`;
