/** Reports: `/admin/api/usage`, `/failures`, and `/audit`. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia, t } from 'elysia'
import { AuditPage } from '../documents/audit.ts'
import { Failures, Refusals, Usage } from '../documents/usage.ts'
import { toDefined } from '../domain/changes.ts'
import {
  DIMENSIONS,
  FAILURE_FILTERS,
  REFUSAL_DIMENSIONS,
  REFUSAL_FILTERS,
  USAGE_FILTERS,
} from '../domain/report-filters.ts'
import { ServiceError } from '../domain/service-error.ts'
import { toDimensions, toRefusalDimensions } from '../ledger/usage.ts'
import { USAGE_FIGURE_SETS } from '../store/report-store.ts'
import { access, type Route } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { type Asker, toAnswer } from './deps.ts'
import { Limit, NAMED, one, several, toLimit, toSpan, toTimeOrNone, toWhere } from './query.ts'

const MAX_ROWS = 10_000

export const UsageQuery = t.Object(
  {
    ...one('by', 'since', 'until'),
    ...several(...USAGE_FILTERS),
    limit: Limit,
    figures: t.Optional(
      t.UnionEnum([...USAGE_FIGURE_SETS], {
        description:
          'Figures per group. `sums`: no latencies; `spend`: only requests and cost. Both are much faster with many groups.',
      }),
    ),
  },
  { additionalProperties: false },
)

export const USAGE: Omit<Route, 'least'> = {
  summary: 'Get usage report',
  description: `Grouped by one or two of ${DIMENSIONS.join(', ')}.`,
  answer: Usage,
  errors: ['report_too_long', ...NAMED],
}

export const usageController = ({ reports, now }: AdminDeps) =>
  new Elysia({ name: 'usage' })
    .use(access())
    .get(
      '/usage',
      async ({ request, asker, query }) =>
        toAnswer(await reports.usage(asker, toUsageOptions(request, query, asker, now()))),
      { route: { ...USAGE, least: 'viewer' }, query: UsageQuery },
    )
    .get(
      '/usage/refusals',
      async ({ request, asker, query }) =>
        toAnswer(await reports.refusals(asker, toRefusalOptions(request, query, asker, now()))),
      { route: { ...REFUSALS, least: 'viewer' }, query: RefusalsQuery },
    )

/** Throws `invalid`. */
export function toUsageOptions(request: Request, query: Static<typeof UsageQuery>, asker: Asker, nowMs: number) {
  const { by = 'key', since = '7d', until, limit = 1_000, figures = 'all' } = query
  return {
    by: toDimensions(by),
    ...toSpan(since, until, nowMs),
    where: toWhere(request, USAGE_FILTERS),
    limit: toLimit(limit, MAX_ROWS, asker),
    figures,
  }
}

const ONE_OF = REFUSAL_DIMENSIONS.join('|')

export const RefusalsQuery = t.Object(
  {
    by: Type.Optional(
      Type.String({
        description: `One or two of ${REFUSAL_DIMENSIONS.join(', ')}, separated by a comma. Default: code.`,
        values: { pattern: `^(${ONE_OF})(,(${ONE_OF}))?$` },
      }),
    ),
    ...one('since', 'until'),
    ...several(...REFUSAL_FILTERS),
    limit: Limit,
  },
  { additionalProperties: false },
)

export const REFUSALS: Omit<Route, 'least'> = {
  summary: 'Get refused requests',
  description:
    'Requests to models that were rejected before they were recorded, in whole UTC hours. They are in no other report. Requests with unknown keys count without a key.',
  answer: Refusals,
  errors: ['report_too_long', ...NAMED],
}

/** Throws `invalid`. */
export function toRefusalOptions(request: Request, query: Static<typeof RefusalsQuery>, asker: Asker, nowMs: number) {
  const { by = 'code', since = '7d', until, limit = 1_000 } = query
  return {
    by: toRefusalDimensions(by),
    ...toSpan(since, until, nowMs),
    where: toWhere(request, REFUSAL_FILTERS),
    limit: toLimit(limit, MAX_ROWS, asker),
  }
}

const MAX_CODES = 1_000

const FailuresQuery = t.Object(
  {
    step: Type.Optional(
      Type.String({ description: 'Length of a row: day or hour.', values: { enum: ['day', 'hour'] } }),
    ),
    ...one('since', 'until'),
    ...several(...FAILURE_FILTERS),
    limit: Limit,
  },
  { additionalProperties: false },
)

export const failuresController = ({ reports, now }: AdminDeps) =>
  new Elysia({ name: 'failures' }).use(access()).get(
    '/failures',
    async ({ request, asker, query: { step: by = 'day', since = '7d', until, limit = 50 } }) => {
      if (by !== 'day' && by !== 'hour') throw new ServiceError({ kind: 'invalid', field: 'step' }, NO_STEP)
      const options = {
        by,
        ...toSpan(since, until, now()),
        where: toWhere(request, FAILURE_FILTERS),
        limit: toLimit(limit, MAX_CODES, asker),
      } as const
      return toAnswer(await reports.failures(asker, options))
    },
    {
      route: {
        least: 'viewer',
        summary: 'Get requests with errors by error code',
        description:
          'By UTC hour or day of creation, within the retention of requests. `limit` is the number of codes.',
        answer: Failures,
        errors: ['report_too_long', ...NAMED],
      },
      query: FailuresQuery,
    },
  )

const NO_STEP = 'Invalid step: must be day or hour.'

const MAX_CHANGES = 1_000

const AuditQuery = t.Object(
  {
    ...one('since', 'actor', 'action', 'subject', 'before'),
    limit: Limit,
  },
  { additionalProperties: false },
)

export const auditController = ({ reports, now }: AdminDeps) =>
  new Elysia({ name: 'audit' }).use(access()).get(
    '/audit',
    async ({ asker, query: { since, limit = 50, ...filter } }) => {
      const sinceMs = toTimeOrNone('since', since, now())
      const options = { ...toDefined({ ...filter, sinceMs }), limit: toLimit(limit, MAX_CHANGES, asker) }
      return toAnswer(await reports.audit(asker, options))
    },
    {
      route: {
        least: 'viewer',
        summary: 'List audit log entries, newest first',
        answer: AuditPage,
        errors: ['report_too_long'],
      },
      query: AuditQuery,
    },
  )
