UPDATE OR IGNORE settings SET key = CASE key
	WHEN 'journal' THEN 'max-journal-size' WHEN 'keep' THEN 'retention' WHEN 'backup' THEN 'backup-every' WHEN 'disk' THEN 'disk-budget'
	WHEN 'share' THEN 'max-key-share' WHEN 'upload' THEN 'body-timeout' WHEN 'max-event' THEN 'max-event-size'
	WHEN 'slow-reader' THEN 'send-timeout' ELSE 'disconnect-grace' END
WHERE key IN ('journal', 'keep', 'backup', 'disk', 'share', 'upload', 'max-event', 'slow-reader', 'leave');
--> statement-breakpoint
UPDATE catalog_entries SET fields = json_set(json_remove(fields, '$.options.leave'), '$.options.disconnect_grace', json(fields -> '$.options.leave'))
WHERE kind = 'upstreams' AND fields -> '$.options.leave' IS NOT NULL;
--> statement-breakpoint
UPDATE catalog_entries SET fields = json_set(json_remove(fields, '$.options.native'), '$.options.passthrough', json(fields -> '$.options.native'))
WHERE kind = 'upstreams' AND fields -> '$.options.native' IS NOT NULL;
