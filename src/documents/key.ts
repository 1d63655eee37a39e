/** Keys and teams in JSON, for the CLI and the admin API. */
import { type Static, Type } from '@sinclair/typebox'
import { toRevision } from '../domain/changes.ts'
import { mapLimits, PERIODS } from '../domain/limits.ts'
import { toKeyFields, toKeyState, toTeamFields } from '../keys/changes.ts'
import { LISTED } from '../keys/definition.ts'
import type { ListedKey } from '../keys/service.ts'
import type { SpendStatus } from '../keys/spend-status.ts'
import type { StoredTeam } from '../store/config-store.ts'
import {
  Count,
  CountOrNull,
  Money,
  MoneyOrNull,
  orNull,
  Revision,
  Text,
  TextOrNull,
  Time,
  TimeOrNull,
  wordOf,
} from './fields.ts'

const Shared = {
  id: Text,
  revision: Revision,
  name: Text,
  scope: wordOf(['all', 'local'] as const),
  models: Type.Array(Text, { description: 'Model ID patterns; empty: every model in the scope.' }),
  ...mapLimits(() => CountOrNull),
  metadata: Type.Record(Type.String(), Type.String()),
  budget_nano_usd: MoneyOrNull,
  budget_period: orNull(wordOf(PERIODS)),
  spent_nano_usd: orNull(Type.Integer({ description: 'Spend in the current budget period, in nano-dollars.' })),
  budget_reset_ms: TimeOrNull,
  budget_state: orNull(wordOf(['ok', 'warning', 'spent'] as const)),
  spent_month_nano_usd: Money,
  spent_total_nano_usd: Money,
  refused_24h: Type.Integer({ description: 'Requests refused before they were recorded, in the last 24 hours.' }),
  last_refused_ms: TimeOrNull,
  last_refused_code: orNull(Type.String({ description: 'Code of the last one, as in `/admin/api/usage/refusals`.' })),
  created_ms: Time,
}

/** Budget fields are null without a budget. */
const toSpendFields = ({ budget: status, monthNanoUsd, totalNanoUsd, refusal }: SpendStatus) => ({
  budget_nano_usd: status?.budget.nanoUsd ?? null,
  budget_period: status?.budget.period ?? null,
  spent_nano_usd: status?.spentNanoUsd ?? null,
  budget_reset_ms: status?.resetMs ?? null,
  budget_state: status?.state ?? null,
  spent_month_nano_usd: monthNanoUsd,
  spent_total_nano_usd: totalNanoUsd,
  refused_24h: refusal?.refused ?? 0,
  last_refused_ms: refusal?.atMs ?? null,
  last_refused_code: refusal?.code ?? null,
})

const Listed = Object.fromEntries(LISTED.map((name) => [name, TextOrNull])) as Record<
  (typeof LISTED)[number],
  typeof TextOrNull
>

export const Key = Type.Object({
  ...Shared,
  last_four: TextOrNull,
  status: wordOf(['active', 'revoked', 'expired'] as const),
  allowed_ips: Type.Array(Text),
  team_id: TextOrNull,
  ...Listed,
  owner_id: TextOrNull,
  owner: TextOrNull,
  hidden: Type.Boolean({ description: "True for a user's playground key." }),
  expires_ms: TimeOrNull,
  last_used_ms: TimeOrNull,
  last_model: TextOrNull,
  secrets: Type.Array(Type.Object({ last_four: Text, created_ms: Time, expires_ms: TimeOrNull })),
  revoked_ms: TimeOrNull,
  ceilings: Type.Object(
    {
      scope: Type.Optional(Type.Literal('local')),
      models: Type.Optional(Type.Array(Text)),
      ...mapLimits(() => Type.Optional(Count)),
      budget_nano_usd: Type.Optional(Money),
      budget_period: Type.Optional(wordOf(PERIODS)),
      allowed_ips: Type.Optional(Type.Array(Text)),
      expires_ms: Type.Optional(Time),
    },
    { description: "Limits on a member's key set by others. The member can lower them, but not raise or remove them." },
  ),
})
export type KeyDocument = Static<typeof Key>

/** The only response with the secret. */
export const MadeKey = Type.Object({
  ...Key.properties,
  key: Type.String({ description: 'The secret. Returned only once; the server stores a hash.' }),
})

export const Changed = Type.Array(Text, {
  description: 'Names of changed fields; empty: no changes.',
})

/** @param names of possible owners by ID */
export function toKeyDocument(key: ListedKey, status: SpendStatus, names: ReadonlyMap<string, string>): KeyDocument {
  const all: Pick<KeyDocument, keyof ReturnType<typeof toKeyFields>> = toKeyFields(key)
  const { name, ...fields } = all
  return {
    id: key.id,
    revision: toRevision(toKeyState(key)),
    name,
    last_four: key.secrets.at(-1)?.lastFour ?? null,
    status: key.status,
    ...fields,
    team: key.team,
    owner_id: key.ownerId,
    owner: key.ownerId === null ? null : (names.get(key.ownerId) ?? null),
    hidden: key.hidden,
    ...toSpendFields(status),
    last_used_ms: status.lastUse?.atMs ?? null,
    last_model: status.lastUse?.model ?? null,
    secrets: key.secrets.map(({ lastFour, createdMs, expiresMs }) => ({
      last_four: lastFour,
      created_ms: createdMs,
      expires_ms: expiresMs,
    })),
    created_ms: key.createdMs,
    revoked_ms: key.revokedMs,
  }
}

export const Team = Type.Object({ ...Shared, max_keys: CountOrNull })
export type TeamDocument = Static<typeof Team>

/** A team as its members see it. */
export const OwnTeam = Type.Omit(Team, ['metadata'])

export function toTeamDocument(team: StoredTeam, status: SpendStatus): TeamDocument {
  const fields: Pick<TeamDocument, keyof ReturnType<typeof toTeamFields>> = toTeamFields(team)
  return {
    id: team.id,
    revision: toRevision(fields),
    ...fields,
    ...toSpendFields(status),
    created_ms: team.createdMs,
  }
}
