/**
 * Finds states that need a person now, with one function per kind. `attention.ts` shows findings, `active-alerts.ts`
 * sends them.
 */
import { type Static, Type } from '@sinclair/typebox'
import { toShortId } from '../domain/id.ts'
import type { Role } from '../domain/roles.ts'
import { count } from '../domain/text.ts'
import { HOUR_MS, hourOf, toDay } from '../domain/time.ts'
import { isReady, UPSTREAM_STATES } from '../domain/upstream-state.ts'
import { toBudgetText } from '../keys/definition.ts'
import { toForecast } from '../keys/forecast.ts'
import type { BudgetStatus } from '../keys/spend-status.ts'
import { toFew } from './checks.ts'
import { orNull, Text, TimeOrNull, wordOf } from './fields.ts'
import type { Reason, StatusDocument } from './server.ts'
import type { ShownUpstream, UpstreamStatus } from './upstream.ts'

/** Most urgent first. */
export const ATTENTION_KINDS = [
  ...(['ledger', 'disk', 'upstream', 'credential', 'budget_spent', 'errors'] as const),
  ...(['certificate', 'server', 'budget_near', 'refusals', 'backup', 'alerts', 'unpriced', 'restart'] as const),
] as const
export type AttentionKind = (typeof ATTENTION_KINDS)[number]

export const Finding = Type.Object({
  kind: wordOf(ATTENTION_KINDS),
  severity: wordOf(['problem', 'warning'] as const),
  subject: orNull(
    Type.Object(
      { type: wordOf(['key', 'team', 'upstream', 'model'] as const), id: Text, name: Text },
      {
        description: 'null: the server, or several that the message names.',
      },
    ),
  ),
  message: Text,
  since_ms: TimeOrNull,
  action: Type.Object({
    label: Text,
    path: Type.String({ description: 'Page and form below `/admin`.' }),
    command: Text,
  }),
})
export type ShownFinding = Static<typeof Finding>

export interface Spender {
  type: 'key' | 'team'
  id: string
  name: string
  budget: BudgetStatus | null
  /** For users who have a different page for it. */
  page?: string
}

/** Null fields are unknown at the moment. */
export interface Seen {
  nowMs: number
  spenders: readonly Spender[] | null
  upstreams: readonly UpstreamStatus[]
  status: Pick<StatusDocument, 'checks' | 'ledger' | 'lost' | 'disk'> | null
  reasons: readonly Reason[]
  /** The current hour, the one before, and the preceding week, which may be summed up as one entry. */
  hours: readonly Hour[] | null
  /** In the current hour and the one before, by key and code. */
  refused: readonly Refused[] | null
  /** Requests of the last day by model; null: all others. */
  unpriced: readonly { model: string | null; requests: number }[] | null
  /** Alert targets that were recently unreachable. */
  unsent: readonly { name: string; error: string; sinceMs: number }[]
  /** Names of settings that a restart changes. */
  pending: readonly string[]
}

export interface Hour {
  ms: number
  requests: number
  failed: number
}

export interface Refused {
  key: { id: string; name: string }
  /** HTTP status sent to the client. */
  status: number
  code: string
  meaning: string
  refused: number
  lastMs: number
}

/** What to do; `view` is for users without the role `least`. */
interface Action {
  label: string
  path: string
  command: string
  least: Role
  view: { label: string; path: string }
}

export type Found = Omit<ShownFinding, 'kind' | 'action'> & {
  action: Action
  /** Distinguishes findings of a kind that have no subject. */
  part?: string
}

function toAction(label: string, path: string, least: Role, command: string): Omit<Action, 'view'> {
  return { label, path, command, least }
}

export const toView = (label: string, path: string, command: string): Action => ({
  ...toAction(label, path, 'viewer', command),
  view: { label, path },
})

export const SEE_SERVER = toView('View server', '/settings/server', 'tollgate doctor')

const toServerFinding = (severity: Found['severity'], message: string, view = SEE_SERVER.view): Found => ({
  ...{ severity, message, subject: null, since_ms: null },
  action: { ...SEE_SERVER, ...view, view },
})

function ofChecks(status: Seen['status'], name: string, action: Action): Found[] {
  return (status?.checks ?? []).flatMap((check) =>
    check.name === name && check.status !== 'ok'
      ? [{ severity: check.status, message: check.message, subject: null, since_ms: null, action, part: name }]
      : [],
  )
}

const findDisk = ({ status }: Seen): Found[] =>
  ofChecks(status, 'disk', SEE_SERVER).map((found) =>
    status?.disk?.state === 'full' ? { ...found, severity: 'problem' } : found,
  )

function findLedger({ status, reasons }: Seen): Found[] {
  if (status === null || (status.ledger === 'ok' && status.lost === null)) return []
  const rejecting = ofChecks(status, 'readiness', SEE_SERVER).filter(({ severity }) => severity === 'problem')
  if (rejecting.length > 0) return rejecting
  return reasons.flatMap(({ about, text }) => (about === 'ledger' ? [toServerFinding('problem', text)] : []))
}

const OF_SERVER: readonly Reason['about'][] = ['shutdown', 'overload', 'configuration', 'cluster']

const findServer = ({ status, reasons }: Seen): Found[] => [
  ...reasons.flatMap(({ about, text }) =>
    OF_SERVER.includes(about) ? [{ ...toServerFinding('problem', text), part: about }] : [],
  ),
  ...['files', 'proxy'].flatMap((name) => ofChecks(status, name, SEE_SERVER)),
]

/** True if its own credential is the cause. */
const lacksCredential = ({ state, credential }: UpstreamStatus) =>
  state === 'refused' || (state === 'not_ready' && credential === 'not_set')

/** An upstream without a route affects no request. */
export const inUse = ({ upstreams }: Seen) => upstreams.filter(({ targets }) => targets.length > 0)

/** Merges reason and last error, which often begins with the end of the reason, such as `status 503`. */
function toWhy(reason: string | null, error: string | null): string | null {
  if (error === null || error === reason) return reason
  const end = reason?.split(': ').at(-1)
  if (reason !== null && end !== undefined && error.startsWith(end)) return reason.slice(0, -end.length) + error
  return `${reason ?? 'no reason is known'}; last error: ${error}`
}

function findUpstreams(seen: Seen): Found[] {
  return inUse(seen).flatMap((upstream): Found[] => {
    const { id, state, reason, last_error: error } = upstream
    if ((isReady(upstream) && state !== 'degraded') || lacksCredential(upstream)) return []
    const path = `/upstreams?upstream=${encodeURIComponent(id)}`
    const told = toWhy(reason, error?.message ?? null)
    return [
      {
        ...toUpstreamSubject(upstream),
        severity: state === 'degraded' ? 'warning' : 'problem',
        message: toSentence(`Upstream ${id} ${UPSTREAM_STATES[state].says}: ${told ?? 'no reason is known'}`),
        action: {
          ...toAction('Check upstream', path, 'editor', `tollgate upstreams test ${id}`),
          view: { label: 'View upstream', path },
        },
      },
    ]
  })
}

function findCredentials(seen: Seen): Found[] {
  return inUse(seen).flatMap((upstream): Found[] => {
    const { id, state, reason, credentials } = upstream
    const path = `/upstreams?upstream=${encodeURIComponent(id)}`
    const action = {
      ...toAction('Set credential', `${path}&edit=api_key`, 'owner', `tollgate upstreams edit ${id} --key`),
      view: { label: 'View upstream', path },
    }
    const about = { ...toUpstreamSubject(upstream), action }
    if (lacksCredential(upstream)) {
      const message = toSentence(`Upstream ${id} ${UPSTREAM_STATES[state].says}: ${reason ?? 'no reason is known'}`)
      return [{ ...about, severity: 'problem', message }]
    }
    const out = credentials.filter(({ status }) => status !== 'set')
    const [first] = out
    if (!first || out.length === credentials.length) return []
    const message = `${out.length} of ${count(credentials.length, 'credential')} of upstream ${id} not in use: ${first.reason ?? 'not set'}`
    return [{ ...about, severity: 'warning', message: toSentence(message) }]
  })
}

const toSentence = (text: string) => (/[.!?…]$/.test(text) ? text : `${text}.`)

export const toUpstreamSubject = ({ id, last_ok_ms }: Pick<ShownUpstream, 'id' | 'last_ok_ms'>) => ({
  subject: { type: 'upstream' as const, id, name: id },
  since_ms: last_ok_ms,
})

function toBudgetFinding(
  { type, id, name, budget, page }: Spender,
  severity: Found['severity'],
  toMessage: (whose: string, budget: BudgetStatus) => string,
): Found[] {
  if (budget === null) return []
  const path = `/${type}s?${type}=${id}`
  return [
    {
      ...{ severity, since_ms: null, subject: { type, id, name } },
      message: toMessage(`${type === 'key' ? 'Key' : 'Team'} ${name}`, budget),
      action: {
        ...toAction(
          'Raise budget',
          `${path}&edit=budget`,
          'editor',
          `tollgate ${type}s edit ${toShortId(id)} --budget 50/month`,
        ),
        view: { label: `View ${type}`, path: page ?? path },
      },
    },
  ]
}

const toReset = (resetMs: number | null) => (resetMs === null ? 'It never resets' : `It resets on ${toDay(resetMs)}`)

export const toSpent = (spender: Spender): Found[] =>
  toBudgetFinding(
    spender,
    'problem',
    (whose, { budget, resetMs }) =>
      `${whose} has spent its budget of ${toBudgetText(budget)}, so its requests fail. ${toReset(resetMs)}.`,
  )

const findSpent = ({ spenders }: Seen): Found[] =>
  (spenders ?? []).filter(({ budget }) => budget?.state === 'spent').flatMap(toSpent)

/** A forecast from less would often be wrong. */
const FORECAST_PERCENT = 50
const NEAR_PERCENT = 90

export function toNear(spender: Spender, { refused, nowMs }: Seen): Found[] {
  const failed = (refused ?? [])
    .filter(({ key, code }) => key.id === spender.id && code === 'insufficient_quota')
    .reduce((sum, one) => sum + one.refused, 0)
  return toBudgetFinding(spender, 'warning', (whose, { percent, budget, resetMs }) => {
    const emptyMs = toEmptyMs(spender.budget, nowMs)
    const next = emptyMs === null ? toReset(resetMs) : `At this pace, it is spent by ${toMinute(emptyMs)}`
    const rest = failed === 0 ? '' : `, and the rest was too little for ${count(failed, 'request')} in the last hour`
    return `${whose} has spent ${percent}% of its budget of ${toBudgetText(budget)}${rest}. ${next}.`
  })
}

function findNear(seen: Seen): Found[] {
  return (seen.spenders ?? [])
    .filter(({ budget }) => budget !== null && budget.state !== 'spent')
    .toSorted((a, b) => (b.budget?.percent ?? 0) - (a.budget?.percent ?? 0))
    .filter(({ budget }) => (budget?.percent ?? 0) >= NEAR_PERCENT || toEmptyMs(budget, seen.nowMs) !== null)
    .flatMap((spender) => toNear(spender, seen))
}

function toEmptyMs(status: BudgetStatus | null, nowMs: number): number | null {
  if (status === null || status.percent < FORECAST_PERCENT) return null
  const { budget, spentNanoUsd, resetMs } = status
  const fields = {
    budget_nano_usd: budget.nanoUsd,
    budget_period: budget.period,
    spent_nano_usd: spentNanoUsd,
    budget_reset_ms: resetMs,
  }
  return toForecast(fields, nowMs)?.emptyMs ?? null
}

/** `2026-11-28 14:05 UTC` */
const toMinute = (ms: number) => `${new Date(ms).toISOString().slice(0, 16).replace('T', ' ')} UTC`

/** With fewer recent requests or errors, the share means little. */
const FEW_REQUESTS = 20
const FEW_FAILED = 10
const BAD_SHARE = 0.1
const WORST_SHARE = 0.5
/** How many times the usual share is above normal. */
const ABOVE = 2

/** Compares this hour, and the one before if there were few requests, with the week before. */
function findErrors({ hours, nowMs }: Seen): Found[] {
  const thisMs = hourOf(nowMs)
  const sum = (isMeant: (ms: number) => boolean) =>
    (hours ?? []).reduce(
      (all, { ms, requests, failed }) =>
        isMeant(ms) ? { requests: all.requests + requests, failed: all.failed + failed } : all,
      { requests: 0, failed: 0 },
    )
  const isFew = sum((ms) => ms >= thisMs).requests < FEW_REQUESTS
  const sinceMs = isFew ? thisMs - HOUR_MS : thisMs
  const [now, usual] = [sum((ms) => ms >= sinceMs), sum((ms) => ms < sinceMs)]
  const share = now.failed / now.requests
  const usualShare = usual.requests < FEW_REQUESTS ? 0 : usual.failed / usual.requests
  if (now.failed < FEW_FAILED || share < BAD_SHARE || share < usualShare * ABOVE) return []
  const than = usual.requests < FEW_REQUESTS ? '' : `, usually ${toPercent(usualShare)}`
  return [
    {
      severity: share >= WORST_SHARE ? 'problem' : 'warning',
      message: `${now.failed} of ${count(now.requests, 'request')} failed since ${toMinute(sinceMs)} (${toPercent(share)}${than}).`,
      ...{ subject: null, since_ms: sinceMs },
      action: toView(
        'View failed requests',
        `/requests?state=errors&since=${sinceMs}`,
        'tollgate requests list --errors',
      ),
    },
  ]
}

const toPercent = (share: number) => `${Math.round(share * 1_000) / 10}%`

/** Fewer may be a typing error. */
const FEW_REFUSED = 20
/** Refusals caused by the key itself, which no other finding covers. */
const OF_KEY: readonly (string | number)[] = [401, 403, 404, 'request_limit', 'token_limit']

function findRefusals({ refused, nowMs }: Seen): Found[] {
  const own = (refused ?? []).filter(({ status, code }) => OF_KEY.includes(status) || OF_KEY.includes(code))
  return [...Map.groupBy(own, ({ key }) => key.id).values()]
    .map((codes) => ({
      codes,
      total: codes.reduce((sum, { refused }) => sum + refused, 0),
      lastMs: Math.max(...codes.map((one) => one.lastMs)),
    }))
    .filter(({ total, lastMs }) => total >= FEW_REFUSED && lastMs > nowMs - HOUR_MS)
    .sort((a, b) => b.total - a.total)
    .flatMap(({ codes, total, lastMs }): Found[] => {
      const [most] = codes.toSorted((a, b) => b.refused - a.refused)
      if (!most) return []
      const { id, name } = most.key
      const since = toMinute(hourOf(nowMs) - HOUR_MS)
      return [
        {
          severity: 'warning',
          message: `${count(total, 'request')} of key ${name} refused since ${since}${codes.length > 1 ? ', most of them' : ''}: ${most.meaning}`,
          ...{ subject: { type: 'key', id, name }, since_ms: lastMs },
          action: toView('View key', `/keys?key=${id}`, `tollgate usage --refusals --key ${toShortId(id)} --since 24h`),
        },
      ]
    })
}

function findUnpriced({ unpriced }: Seen): Found[] {
  return (unpriced ?? []).map(({ model, requests }) => {
    const message = `${count(requests, 'request')} to ${model ?? 'other models'} in the last day had usage without a price, so the cost is too low.`
    const shown = { severity: 'warning', message, since_ms: null } as const
    if (model === null)
      return { ...shown, subject: null, action: toView('View models', '/models', 'tollgate models list') }
    const path = `/models?model=${encodeURIComponent(model)}`
    return {
      ...shown,
      subject: { type: 'model', id: model, name: model },
      action: {
        ...toAction('Set price', `${path}&edit=prompt`, 'editor', `tollgate models show ${model}`),
        view: { label: 'View model', path },
      },
    }
  })
}

export const FINDERS: Readonly<Record<AttentionKind, (seen: Seen) => Found[]>> = {
  ledger: findLedger,
  disk: findDisk,
  upstream: findUpstreams,
  credential: findCredentials,
  budget_spent: findSpent,
  errors: findErrors,
  certificate: ({ status }) => ofChecks(status, 'certificate', SEE_SERVER),
  server: findServer,
  budget_near: findNear,
  refusals: findRefusals,
  backup: ({ status }) =>
    ofChecks(status, 'backup', {
      ...toAction('Create backup', '/settings/backups', 'owner', 'tollgate backup FILE'),
      view: SEE_SERVER.view,
    }),
  alerts: ({ unsent }) =>
    unsent.map(({ name, error, sinceMs }) => ({
      severity: 'warning',
      message: toSentence(`Alerts to ${name} are not delivered: ${error}`),
      ...{ subject: null, since_ms: sinceMs, part: name },
      action: toView('View alerts', '/settings/alerts', 'tollgate alerts log'),
    })),
  unpriced: findUnpriced,
  restart: ({ pending }) =>
    pending.length === 0
      ? []
      : [
          toServerFinding('warning', `Restart the server to apply changed settings: ${toFew(pending)}.`, {
            label: 'View settings',
            path: '/settings',
          }),
        ],
}
