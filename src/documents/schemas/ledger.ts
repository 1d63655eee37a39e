/** What is told of requests, of who spent what, and of who changed what. */
import { Type } from '@sinclair/typebox'
import { REQUEST_STATUSES, UNWELL } from '../../store/request-store.ts'
import type { AuditPageDocument } from '../audit.ts'
import type { FailuresDocument } from '../failures.ts'
import type { ChargeDocument, RequestDocument, RequestPageDocument } from '../request.ts'
import type { UsageDocument } from '../usage.ts'
import {
  Count,
  CountOrNull,
  describes,
  Fields,
  Money,
  MoneyOrNull,
  orNull,
  Text,
  TextOrNull,
  Time,
  wordOf,
} from './describes.ts'
import { Pricing } from './models.ts'

const status = wordOf(REQUEST_STATUSES)
/** 0 or 1. */
const bit = Type.Integer({ minimum: 0, maximum: 1 })

/** What a request and each of its calls have. */
const Called = {
  ...{ upstream: Text, upstream_model: Text, lane: Text, price_id: TextOrNull, created_ms: Time },
  ...{ reserved_prompt_tokens: Count, reserved_completion_tokens: Count, reserved_nano_usd: Money },
  ...{
    status,
    http_status: CountOrNull,
    error_code: TextOrNull,
    duration_ms: CountOrNull,
    first_token_ms: CountOrNull,
  },
  ...{ prompt_tokens: Count, cached_tokens: Count, cache_write_tokens: Count, cache_write_1h_tokens: Count },
  ...{ completion_tokens: Count, reasoning_tokens: Count, audio_prompt_tokens: Count, audio_completion_tokens: Count },
  ...{ image_tokens: Count, image_completion_tokens: Count, tool_prompt_tokens: Count },
  web_searches: Count,
  compute_ms: Type.Integer({ description: 'How long a server was at work on it, where that has a price.' }),
  estimated: Type.Integer({ minimum: 0, maximum: 1, description: '1 where some count is ours.' }),
  ...{ cost_nano_usd: Money, upstream_request_id: TextOrNull },
  credential: orNull(
    Type.Integer({ description: 'By which of its upstream’s credentials it went; null where that has one or none.' }),
  ),
  mode: orNull(Type.String({ description: 'How its upstream served it, such as flex; null for as most are.' })),
  reported_nano_usd: orNull(
    Type.Integer({ description: 'What its upstream charged by its own word, where that counts.' }),
  ),
  unpriced: Type.Integer({ minimum: 0, maximum: 1, description: '1 where something of it has no price.' }),
}

export const Request = describes<RequestDocument>()(
  Type.Object({
    ...{ id: Text, instance: Text, key_id: Text, key: TextOrNull, team_id: TextOrNull, team: TextOrNull },
    ...{ model: Text, endpoint: Text, stream: bit, user: TextOrNull },
    ...Called,
    attempts: Count,
  }),
)

export const RequestPage = describes<RequestPageDocument>()(
  Type.Object({
    requests: Type.Array(Request),
    next: orNull(Type.String({ description: 'For `before`, of the next page; null where there is none.' })),
    stopped_after: orNull(Type.Integer({ description: 'So many were looked at, and older ones were not.' })),
  }),
)

const Line = Type.Object({ kind: Text, count: Count, price: Text, usd_each: Text, usd: Text })

const Call = Type.Object({
  ...{ number: Count, reason: wordOf(['first', 'retry', 'fallback', 'limit', 'fan_out', 'schema', 'within'] as const) },
  ...Called,
  basis: wordOf(['tokens', 'reported', 'free', 'nothing', 'reserve', 'open', 'unknown'] as const),
  price: orNull(
    Type.Object({ id: Text, model: Text, upstream: TextOrNull, pricing: Type.Array(Pricing), created_ms: Time }),
  ),
  charge: orNull(
    Type.Object({ item: orNull(Pricing), lines: Type.Array(Line), usd: Text, unpriced: Type.Array(Text) }),
  ),
  worked_out_nano_usd: MoneyOrNull,
})

export const ExplainedRequest = describes<ChargeDocument>()(
  Type.Object({
    ...Request.properties,
    calls: Type.Array(describes<ChargeDocument['calls'][number]>()(Call)),
    worked_out_nano_usd: MoneyOrNull,
    agrees: orNull(Type.Boolean({ description: 'Whether that is what the ledger says.' })),
  }),
)

const Figures = Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Null()]))

export const Usage = describes<UsageDocument>()(
  Type.Object({
    usage: Type.Array(Figures, { description: 'A row for each group, by what was asked for.' }),
    rest: orNull(Figures),
    total: Figures,
    since_ms: Time,
    until_ms: Time,
    waiting: Type.Integer({ description: 'Records that the database did not have yet.' }),
  }),
)

export const Failures = describes<FailuresDocument>()(
  Type.Object({
    failures: Type.Array(
      Type.Object({
        at_ms: Type.Integer({ description: 'When the hour or the day begins, ms since 1970.' }),
        ...{ status: wordOf(UNWELL), error_code: TextOrNull, requests: Count },
      }),
      { description: 'By time, and then by how many they are.' },
    ),
    rest: Type.Integer({ description: 'Requests with codes beyond `limit`.' }),
    since_ms: Type.Integer({
      description: 'What it covers begins later than was asked for where requests are no longer on record one by one.',
    }),
    until_ms: Time,
    waiting: Type.Integer({ description: 'Records that the database did not have yet.' }),
  }),
)

export const AuditRow = describes<AuditPageDocument['audit'][number]>()(
  Type.Object({
    ...{ id: Text, at_ms: Time, actor: Text, actor_name: TextOrNull, action: Text, subject: Text },
    detail: Fields,
  }),
)

export const AuditPage = describes<AuditPageDocument>()(Type.Object({ audit: Type.Array(AuditRow), next: TextOrNull }))
