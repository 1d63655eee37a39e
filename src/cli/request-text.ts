/** Text output of requests: the table of `requests list`, and the calls and cost breakdown of `requests show`. */
import type { ChargeDocument, RequestDocument } from '../documents/request.ts'
import { toShortId } from '../domain/id.ts'
import { CORRECTION } from '../domain/report-filters.ts'
import { explainError, toReason, toUpstreamFailure } from '../domain/request-errors.ts'
import { capitalize, count } from '../domain/text.ts'
import { COUNT_SOURCE_TEXTS, toUnitPriceText, toUnitTexts, toUnitWords } from '../domain/units.ts'
import { toDoubt, toUsd } from '../domain/usage.ts'
import { isFar } from '../ledger/charge.ts'
import { toDescribedTable, toFactLines, toIndented, toPrintable, toShort, toTable, toTime } from './io.ts'
import { toConditionText, toPerMillion } from './models/models.ts'
import type { Paint } from './terminal.ts'

type Call = ChargeDocument['calls'][number]
type Line = NonNullable<Call['charge']>['lines'][number]

export function toRequestText(charge: ChargeDocument): string {
  return `${toFacts(charge)}\nCalls\n${toWaterfall(charge)}\nCharge\n${toCharges(charge)}`
}

function toFacts(request: ChargeDocument): string {
  const {
    key,
    key_id: keyId,
    team,
    team_id: teamId,
    user,
    duration_ms: durationMs,
    first_token_ms: firstTokenMs,
  } = request
  const by = [
    `key ${key ?? toShortId(keyId)}`,
    teamId === null ? '' : `team ${team ?? toShortId(teamId)}`,
    user === null ? '' : `user ${user}`,
  ]
  const times = [
    firstTokenMs === null ? '' : `first token ${toElapsed(firstTokenMs)}`,
    durationMs === null ? '' : `total ${toElapsed(durationMs)}`,
  ]
  const facts: [what: string, text: string][] = [
    [
      'received',
      `${new Date(request.created_ms).toISOString()}, ${request.endpoint}, ${request.stream ? 'streaming' : 'not streaming'}`,
    ],
    [
      'from',
      keyId === CORRECTION ? "a provider's bill: tollgate audit log --action ledger" : by.filter(Boolean).join(', '),
    ],
    ...(request.node ? [['node', request.node] as [string, string]] : []),
    ['model', request.model],
    ['status', toStatus(request)],
    ...toErrorFacts(request),
    ['time', times.filter(Boolean).join(', ') || '-'],
    ['tokens', `${request.prompt_tokens} input, ${request.completion_tokens} output`],
    ...toServed(request),
    ['reserved', toReserved(request.calls)],
  ]
  return toFactLines(`Request ${request.id}`, facts)
}

const toErrorFacts = (request: ChargeDocument): [what: string, text: string][] => {
  const error = explainError(request)
  return error === null
    ? []
    : [
        ['error', toPrintable(error.what)],
        ['advice', toPrintable(error.next)],
      ]
}

function toServed(request: ChargeDocument): [what: string, text: string][] {
  const { mode, counted_by: countedBy, unpriced } = request
  const units = toUnitTexts(request)
  return [
    ...(mode === null ? [] : [['mode', toPrintable(mode)] satisfies [string, string]]),
    ...(units.length === 0 ? [] : [['other usage', units.join(', ')] satisfies [string, string]]),
    ...(countedBy === null ? [] : [['counts', COUNT_SOURCE_TEXTS[countedBy]] satisfies [string, string]]),
    ...(unpriced === 0
      ? []
      : [['unpriced', 'not all usage has a price: the actual cost may differ'] satisfies [string, string]]),
  ]
}

function toReserved(calls: readonly Call[]): string {
  const sum = (of: (call: Call) => number) => calls.reduce((before, call) => before + of(call), 0)
  const tokens = `${sum((call) => call.reserved_prompt_tokens)} input, ${sum((call) => call.reserved_completion_tokens)} output`
  return `${tokens}, $${toUsd(sum((call) => call.reserved_nano_usd))}${calls.length > 1 ? ' for all calls' : ''}`
}

const WIDTH = 20

/** The bar is `.` until the first token, then `=`. */
function toWaterfall({ created_ms: beganMs, duration_ms: durationMs, calls }: ChargeDocument): string {
  const times = calls.map((call) => toTimes(call, beganMs))
  const wholeMs = Math.max(1, durationMs ?? 0, ...times.map(({ endMs }) => endMs))
  const rows = calls.map((call, at) => {
    const { startMs, firstMs, endMs } = times[at] ?? toTimes(call, beganMs)
    return [
      `  ${call.number}`,
      call.reason.replace('_', ' '),
      toShort(call.upstream),
      call.status,
      toElapsed(startMs),
      firstMs === null ? '-' : toElapsed(firstMs),
      call.duration_ms === null ? '-' : toElapsed(endMs),
      `|${toBar({ startMs, firstMs, endMs }, wholeMs)}|`,
    ]
  })
  const notes = calls.map((call) => [toPrintable(toCallNote(call))])
  return toDescribedTable(['  #', 'REASON', 'UPSTREAM', 'STATUS', 'START', 'FIRST', 'END', ''], rows, notes)
}

/** ms since the start of the request. */
interface CallTimes {
  startMs: number
  firstMs: number | null
  endMs: number
}

function toTimes(
  { created_ms: createdMs, first_token_ms: firstTokenMs, duration_ms: durationMs }: Call,
  requestMs: number,
): CallTimes {
  const startMs = Math.max(0, createdMs - requestMs)
  return { startMs, firstMs: firstTokenMs === null ? null : startMs + firstTokenMs, endMs: startMs + (durationMs ?? 0) }
}

/** A call, and its part after the first token, is at least one column wide. */
function toBar({ startMs, firstMs, endMs }: CallTimes, wholeMs: number): string {
  const column = (ms: number) => Math.round((ms / wholeMs) * WIDTH)
  const from = Math.min(WIDTH - 1, column(startMs))
  const to = Math.min(WIDTH, Math.max(from + 1, column(endMs)))
  const first = firstMs === null ? to : Math.min(to - 1, Math.max(from, column(firstMs)))
  return `${' '.repeat(from)}${'.'.repeat(first - from)}${'='.repeat(to - first)}`.padEnd(WIDTH)
}

/** Such as `model large-v1, credential 2: returned 503`. */
function toCallNote({ upstream_model: upstreamModel, status, credential, ...call }: Call): string {
  const reason = toReason({ status, httpStatus: call.http_status, errorCode: call.error_code })
  const end =
    reason !== null ? toUpstreamFailure(reason) : status === 'ok' || call.error_code === status ? '' : call.error_code
  const by = credential === null ? '' : `, credential ${credential}`
  return `model ${upstreamModel}${by}${end ? `: ${end}` : ''}`
}

function toCharges({
  calls,
  recalculated_nano_usd: recalculatedNanoUsd,
  matches_ledger: matchesLedger,
  ...request
}: ChargeDocument): string {
  const each = calls.map((call) => {
    const basis = toIndented(`Call ${call.number}: ${toBasisText(call)}`, 4).slice(2)
    return `${basis}${toLines(call)}${toDifference(call)}`
  })
  if (matchesLedger === null) return `${each.join('')}  In progress. A stream may reserve more.\n`
  const sums = [
    ...(calls.length > 1
      ? [['  All calls', recalculatedNanoUsd === null ? '-' : `$${toUsd(recalculatedNanoUsd)}`]]
      : []),
    ['  In the ledger', `$${toUsd(request.cost_nano_usd)}`],
  ]
  const [head = [], ...rest] = sums
  return each.join('') + toTable(head, rest)
}

function toDifference({ recalculated_nano_usd: recalculatedNanoUsd, cost_nano_usd: cost, basis }: Call): string {
  if (recalculatedNanoUsd === cost || basis === 'open') return ''
  return `    Mismatch: $${toUsd(Math.max(0, cost))} was recorded.\n`
}

function toBasisText(call: Call): string {
  const { basis, price, charge, error_code: errorCode, status, reported_nano_usd: reported } = call
  switch (basis) {
    case 'tokens': {
      const whose = price?.upstream ? `, specific to ${price.upstream}` : ''
      const since = price ? `${toShortId(price.id)} set ${toTime(price.created_ms)} UTC` : '-'
      return toPrintable(`price ${since}${whose}${toEstimate(call)}${toUnpriced(call)}`)
    }
    case 'reported': {
      const charged = `$${toUsd(reported ?? 0)}, as reported by the upstream${toEstimate(call)}`
      if (charge === null) return charged
      const far = isFar({ basis, charge: { nanoUsd: charge.nano_usd }, reportedNanoUsd: reported })
        ? ', more than 1% off'
        : ''
      return `${charged}; its price gives $${toUsd(charge.nano_usd)}${far}`
    }
    case 'free':
      return `free: the upstream has no prices${toEstimate(call)}`
    case 'nothing':
      if (errorCode === 'aborted') return 'not charged (not sent: no free slot, or no longer needed)'
      if (status === 'abandoned') return 'not charged (replaced by another call before the server stopped)'
      return 'not charged (failed before first token)'
    case 'reserve':
      return `$${toUsd(call.reserved_nano_usd)}: reserved amount charged (server stopped mid-request)`
    case 'open':
      return `in progress; $${toUsd(call.reserved_nano_usd)} reserved`
    case 'unknown':
      return `unknown: price ${call.price_id} is missing`
  }
}

/** Usage without a price. For a model used within a call only the row knows it. */
function toUnpriced({ charge, unpriced, mode }: Call): string {
  if (unpriced === 0) return ''
  const lacking = charge?.unpriced ?? []
  const names = lacking.map((name) =>
    name === 'mode' ? `the mode ${mode}` : name === 'size' ? 'images of this size and quality' : name,
  )
  return `; ${toDoubt(lacking, mode)}: no price for ${names.join(', ') || 'its model'}`
}

function toEstimate({ estimated, status, counted_by: countedBy }: Call): string {
  if (countedBy !== null) return `; ${estimated ? 'estimated' : 'counts'}: ${COUNT_SOURCE_TEXTS[countedBy]}`
  if (!estimated) return ''
  const why =
    status === 'ok' ? 'incomplete usage report from the upstream' : 'interrupted before the upstream reported all usage'
  return `; estimated: ${why}; Tollgate counted the rest`
}

function toLines({ charge }: Call): string {
  if (charge === null) return ''
  const condition = toConditionText(charge.item ?? {})
  const tier = condition === '' ? '' : `    ${capitalize(condition)}:\n`
  const rows = charge.lines.map((line) => [`    ${line.count}`, toKind(line), toEach(line), `$${line.usd}`])
  const rounded = toUsd(charge.nano_usd) === charge.usd ? '' : `, rounded $${toUsd(charge.nano_usd)}`
  const [head = [], ...rest] = [...rows, ['    =', '', '', `$${charge.usd}${rounded}`]]
  return tier + toTable(head, rest)
}

/** Such as `input tokens`; `call` for the fee of one. */
function toKind({ kind, count: n }: Line): string {
  if (kind === 'request') return 'call'
  const unit = toUnitWords(kind, n)
  if (unit !== null) return unit
  const words = kind.replaceAll('_', ' ').replace('cache read', 'cached input')
  const named = words.replace('prompt', 'input').replace('completion', 'output')
  return count(n, `${named} token`).slice(String(n).length + 1)
}

/** The unit price, and its name, since a kind may use that of another. */
function toEach({ kind, price, usd_each: usdEach }: Line): string {
  if (kind === 'request') return `x $${usdEach}`
  const unit = toUnitPriceText(kind, usdEach)
  if (unit !== null) return `x ${unit}`
  return `x $${toPerMillion(usdEach)} per million (${price})`
}

const HEADINGS = ['ID', 'TIME (UTC)', 'KEY', 'MODEL', 'STATUS', 'DURATION', 'TOKENS', 'COST']

export function toRequestTable(rows: readonly RequestDocument[], nowMs: number, paint: Paint): string {
  return toDescribedTable(
    HEADINGS,
    rows.map((row) => toCells(row, nowMs)),
    rows.map((row) => [toNote(row)]),
    paint,
  )
}

const toCells = (row: RequestDocument, nowMs: number): string[] => [
  toShortId(row.id),
  toClock(row.created_ms, nowMs),
  toShort(row.key ?? toShortId(row.key_id)),
  toShort(row.model),
  row.status,
  row.duration_ms === null ? '-' : toElapsed(row.duration_ms),
  row.status === 'open' ? '-' : toUsed(row),
  row.status === 'open' ? '-' : toCost(row),
]

/** Input and output tokens, or what was used instead. */
function toUsed(row: RequestDocument): string {
  const [unit] = row.prompt_tokens + row.completion_tokens === 0 ? toUnitTexts(row) : []
  return unit ?? `${row.prompt_tokens}+${row.completion_tokens}`
}

/** `~` marks an estimate, a trailing `+` usage without a price. */
export const toCost = ({
  estimated,
  cost_nano_usd: cost,
  unpriced,
}: Pick<RequestDocument, 'estimated' | 'cost_nano_usd' | 'unpriced'>) =>
  `${estimated ? '~' : ''}$${toUsd(cost)}${unpriced ? '+' : ''}`

type Noted = Pick<RequestDocument, 'status' | 'http_status' | 'error_code' | 'upstream' | 'attempts' | 'reason'>

/** Such as `failed: 502 upstream_failed, openai, 3 calls`. */
const toStatus = (row: Noted) =>
  `${row.status}: ${[...toCode(row), toPrintable(row.upstream), count(row.attempts, 'call')].join(', ')}`

/** A request that a kill left open has no error code. */
function toCode({ status, http_status: httpStatus, error_code: errorCode }: Noted): string[] {
  const code = [httpStatus, errorCode].filter((part) => part !== null && part !== 200 && part !== status).join(' ')
  return code === '' ? [] : [code]
}

/** Such as `502 upstream_failed, 3 calls: Upstream openai returned 503.`; '' for one successful call. */
export function toNote(row: Noted): string {
  const { status, upstream, attempts } = row
  if (status === 'open') return `calling ${toPrintable(upstream)}`
  const error = explainError(row)
  if (error === null) return attempts === 1 ? '' : `${toPrintable(upstream)}, ${count(attempts, 'call')}`
  return toPrintable(`${[...toCode(row), count(attempts, 'call')].join(', ')}: ${error.what}`)
}

/** UTC time, with the date unless today. */
function toClock(ms: number, nowMs: number): string {
  const text = new Date(ms).toISOString()
  const isToday = text.slice(0, 10) === new Date(nowMs).toISOString().slice(0, 10)
  return isToday ? text.slice(11, 19) : text.slice(0, 16).replace('T', ' ')
}

/** Such as `120 ms`, `1.24 s` or `75 s`. */
export function toElapsed(ms: number): string {
  if (ms < 1_000) return `${ms} ms`
  return `${ms < 10_000 ? (ms / 1_000).toFixed(2) : Math.round(ms / 1_000)} s`
}
