/** Server status, settings, and backups in JSON, for the admin API. */
import { type Static, Type } from '@sinclair/typebox'
import type { ListedBackup } from '../backup/backup-list.ts'
import { type SettingText, toVariableName } from '../config.ts'
import { Check } from './checks.ts'
import { OwnNode } from './cluster.ts'
import { Count, Flag, orNull, Revision, Text, TextOrNull, Time, TimeOrNull, wordOf } from './fields.ts'

export const Setting = Type.Object({
  name: Text,
  group: Type.String({ description: 'Section of the settings page.' }),
  description: Text,
  value: orNull(Type.String({ description: 'Effective value; null: none.' })),
  from: wordOf(['flag', 'environment', 'setting', 'default'] as const),
  variable: Text,
  default: TextOrNull,
  stored: orNull(Type.String({ description: 'Stored value. Flags and the environment override it.' })),
  expected: Text,
  needs_restart: Flag,
  pending: Type.Boolean({ description: 'True if a restart changes the effective value.' }),
})
export const Settings = Type.Object({ revision: Revision, settings: Type.Array(Setting) })

/** @param stored null without a stored value */
export function toSettingDocument(setting: SettingText, stored: string | null): Static<typeof Setting> {
  const { name, group, description, text, place, byDefault, expected } = setting
  const isOverridden = place === 'flag' || place === 'environment'
  return {
    ...{ name, group, description, value: text, from: place, variable: toVariableName(name), default: byDefault },
    ...{ stored, expected, needs_restart: true, pending: !isOverridden && (stored ?? byDefault) !== text },
  }
}

const Disk = Type.Object({
  /** `filling`: disk or budget is running low; `full`: the budget is used up, or the disk has no space for the journal. */
  state: wordOf(['ok', 'filling', 'full'] as const),
  ...{ used_bytes: Count, reusable_bytes: Count, free_bytes: Count },
  budget_bytes: orNull(Type.Integer({ description: 'Value of `--disk-budget`; null: none.' })),
})
export type DiskState = Static<typeof Disk>

const Backups = Type.Object({
  every_ms: Type.Integer({ description: 'Interval of scheduled backups; 0: none.' }),
  keep: Type.Integer({ description: 'Number of scheduled backups to keep.' }),
  failed: orNull(Type.String({ description: 'Why the last scheduled backup failed, or what is wrong with it.' })),
  newest_ms: TimeOrNull,
})

const Certificate = Type.Object({
  names: Type.Array(Text, { description: 'DNS names and addresses.' }),
  ...{ valid_from_ms: Time, expires_ms: Time },
  problem: orNull(Type.String({ description: 'Why a newer certificate is not in use.' })),
})
export type CertificateState = Static<typeof Certificate>

export const Status = Type.Object({
  ...{ version: Text, url: Type.String({ description: 'Ends in `/v1`.' }), started_ms: Time },
  readiness: wordOf(['ok', 'degraded', 'starting', 'draining', 'ledger_unavailable'] as const),
  reasons: Type.Array(Text, { description: 'Why `readiness` is not `ok`.' }),
  /** `behind`: the oldest pending record is over 10 s old; `unavailable`: the journal accepts no new requests. */
  ledger: wordOf(['ok', 'behind', 'unavailable'] as const),
  pending_records: Type.Integer({ description: 'Records not yet in the database.' }),
  /** Which file of the data folder is missing or was replaced. */
  lost: orNull(wordOf(['database', 'journal'] as const)),
  disk: orNull(Disk),
  backups: Backups,
  certificates: Type.Array(Certificate, { description: 'In use for HTTPS; empty: plain HTTP.' }),
  cluster: orNull(OwnNode),
  in_flight: Count,
  buffered_bytes: Type.Integer({ description: 'Memory used by requests in flight.' }),
  checks: Type.Array(Check),
})
export type StatusDocument = Static<typeof Status>
/** Part of the server that a reason is about. */
export interface Reason {
  about: 'shutdown' | 'overload' | 'configuration' | 'ledger' | 'disk' | 'certificate' | 'cluster' | 'upstream'
  text: string
}
export type ServerReadiness = StatusDocument['readiness']

export const Backup = Type.Object({
  name: Text,
  kind: wordOf(['scheduled', 'made', 'before_migration', 'other'] as const),
  bytes: Count,
  made_ms: Time,
})

export const toBackupDocument = ({ name, kind, bytes, madeMs }: ListedBackup): Static<typeof Backup> => ({
  ...{ name, kind, bytes },
  made_ms: madeMs,
})
