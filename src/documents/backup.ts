/** A backup in `backups/`, as the admin API answers. */
import type { ShelvedBackup } from '../backup/shelf.ts'

export const toBackupDocument = ({ name, kind, bytes, madeMs }: ShelvedBackup) => ({
  ...{ name, kind, bytes },
  made_ms: madeMs,
})
