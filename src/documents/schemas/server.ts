/** What is told of a server: its settings, how it is doing, its backups. */
import { Type } from '@sinclair/typebox'
import type { toBackupDocument } from '../backup.ts'
import type { Check as FoundCheck } from '../check.ts'
import type { toSettingDocument } from '../setting.ts'
import type { BackupsStatus, DiskState, StatusDocument } from '../status.ts'
import {
  Count,
  CountOrNull,
  describes,
  Flag,
  orNull,
  Revision,
  Text,
  TextOrNull,
  Time,
  TimeOrNull,
  wordOf,
} from './describes.ts'

export const Setting = describes<ReturnType<typeof toSettingDocument>>()(
  Type.Object({
    name: Text,
    value: TextOrNull,
    from: wordOf(['flag', 'environment', 'setting', 'default'] as const),
    variable: Text,
    default: TextOrNull,
    stored: TextOrNull,
    expected: Text,
    needs_restart: Flag,
    pending: Flag,
  }),
)

export const Settings = Type.Object({ revision: Revision, settings: Type.Array(Setting) })

export const Check = describes<FoundCheck>()(
  Type.Object({ name: Text, status: wordOf(['ok', 'warning', 'problem'] as const), message: Text }),
)

const Disk = describes<DiskState>()(
  Type.Object({
    state: wordOf(['ok', 'filling', 'full'] as const),
    ...{ used_bytes: Count, reusable_bytes: Count, free_bytes: Count, budget_bytes: CountOrNull },
    growth_bytes_per_day: orNull(Type.Number()),
    days_left: orNull(Type.Number()),
  }),
)

const Backups = describes<BackupsStatus>()(
  Type.Object({ every_ms: Count, keep: Count, failed: TextOrNull, newest_ms: TimeOrNull }),
)

export const Status = describes<StatusDocument>()(
  Type.Object({
    ...{ version: Text, url: Text, started_ms: Time },
    readiness: wordOf(['ok', 'degraded', 'starting', 'draining', 'ledger_unavailable'] as const),
    reasons: Type.Array(Text),
    ledger: wordOf(['ok', 'behind', 'unavailable'] as const),
    waiting: Type.Integer({ description: 'Records that the database does not have yet.' }),
    lost: orNull(wordOf(['database', 'journal'] as const)),
    disk: orNull(Disk),
    backups: Backups,
    ...{ in_flight: Count, buffered_bytes: Count },
    checks: Type.Array(Check),
  }),
)

export const Backup = describes<ReturnType<typeof toBackupDocument>>()(
  Type.Object({
    name: Text,
    kind: wordOf(['scheduled', 'made', 'before_migration', 'other'] as const),
    bytes: Count,
    made_ms: Time,
  }),
)
