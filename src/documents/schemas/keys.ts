/** What is told of keys and of teams. */
import { Type } from '@sinclair/typebox'
import { PERIODS } from '../../domain/limits.ts'
import type { KeyDocument } from '../key.ts'
import type { TeamDocument } from '../team.ts'
import {
  Count,
  CountOrNull,
  describes,
  Money,
  MoneyOrNull,
  orNull,
  Revision,
  Text,
  TextOrNull,
  Time,
  TimeOrNull,
  wordOf,
} from './describes.ts'

const Shared = {
  id: Text,
  revision: Revision,
  name: Text,
  scope: wordOf(['all', 'local'] as const),
  models: Type.Array(Text, { description: 'Patterns over slugs; none: every model of the scope.' }),
  rpm: CountOrNull,
  tpm: CountOrNull,
  concurrency: CountOrNull,
  metadata: Type.Record(Type.String(), Type.String()),
  budget_nano_usd: MoneyOrNull,
  budget_period: orNull(wordOf(PERIODS)),
  spent_nano_usd: orNull(Type.Integer({ description: 'Of the budget, in its period.' })),
  budget_reset_ms: TimeOrNull,
  budget_state: orNull(wordOf(['ok', 'warning', 'spent'] as const)),
  spent_month_nano_usd: Money,
  spent_total_nano_usd: Money,
  created_ms: Time,
}

export const Key = describes<KeyDocument>()(
  Type.Object({
    ...Shared,
    last_four: TextOrNull,
    status: wordOf(['active', 'revoked', 'expired'] as const),
    allowed_ips: Type.Array(Text),
    team_id: TextOrNull,
    team: TextOrNull,
    owner_id: TextOrNull,
    owner: TextOrNull,
    hidden: Type.Boolean({ description: 'Whether it is what a playground is metered by.' }),
    expires_ms: TimeOrNull,
    last_used_ms: TimeOrNull,
    last_model: TextOrNull,
    secrets: Type.Array(Type.Object({ last_four: Text, created_ms: Time, expires_ms: TimeOrNull })),
    revoked_ms: TimeOrNull,
    ceilings: Type.Object(
      {
        scope: Type.Optional(Type.Literal('local')),
        models: Type.Optional(Type.Array(Text)),
        ...{ rpm: Type.Optional(Count), tpm: Type.Optional(Count), concurrency: Type.Optional(Count) },
        budget_nano_usd: Type.Optional(Money),
        budget_period: Type.Optional(wordOf(PERIODS)),
        allowed_ips: Type.Optional(Type.Array(Text)),
        expires_ms: Type.Optional(Time),
      },
      { description: "Of a member's key: what others have set, which the member may lower and not lift." },
    ),
  }),
)

/** The one answer that has its secret. */
export const MadeKey = Type.Object({
  ...Key.properties,
  key: Type.String({ description: 'The secret: shown once, and kept as a hash alone.' }),
})

export const Team = describes<TeamDocument>()(Type.Object({ ...Shared, max_keys: CountOrNull }))

/** A team as its members see it. */
export const OwnTeam = Type.Omit(Team, ['metadata'])
