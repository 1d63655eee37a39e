/**
 * Checks a story's ledger against clients and upstreams, both ways: every response and refusal has its row or none,
 * every call its record. `whyUnseen` lists the exceptions.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Held } from './answers.ts'
import { toSlug } from './catalog.ts'
import type { Outcome } from './client.ts'
import { complain, type Facts, type LogLine, stretchOf } from './facts.ts'
import { type Row, type Rows, type Sums, toGivenUp, toParts } from './rows.ts'
import type { SeenCall } from './upstreams.ts'

const COUNTING_MS = 2_000

/** Errors possible before dispatch, which then leave no row. */
const BEFORE_DISPATCH = new Set<string | null>([
  'model_not_found',
  'model_not_ready',
  'rate_limit_exceeded',
  'insufficient_quota',
  'server_is_overloaded',
])

export function judgeLedger(facts: Facts, rows: Rows, held: readonly Held[]): string[] {
  const { story } = facts
  const byNumber = new Map(held.map((one) => [one.outcome.plan.number, one]))
  return [
    ...judgeWhole(facts, rows),
    ...story.outcomes.flatMap((outcome) => {
      const said = judgeRow(facts, rows, outcome, byNumber.get(outcome.plan.number) ?? null)
      return said.map(([expected, came]) => complain(story, outcome, expected, came))
    }),
    ...judgeSeen(facts, rows),
  ]
}

/** The broken expectation, and the actual value. */
type Flaw = [expected: string, came: unknown]

function judgeWhole({ story, lines }: Facts, rows: Rows): string[] {
  const { server, audits, exitCode, upstreams } = story
  const flaws: Flaw[] = []
  const expectSame = (what: string, came: unknown, expected: unknown) => {
    if (!Bun.deepEquals(came, expected)) flaws.push([`${what}: ${JSON.stringify(expected)}`, came])
  }
  expectSame('the exit code after SIGTERM', exitCode, 0)
  expectSame(
    'audits that find nothing',
    audits.filter(({ code }) => code !== 0),
    [],
  )
  expectSame('an empty journal', readdirSync(join(server.data, 'journal')), [])
  expectSame('a sound file', rows.integrity, [{ integrity_check: 'ok' }])
  expectSame(
    'nothing open',
    rows.all.filter((row) => [row, ...row.calls].some(({ status }) => status === 'open')),
    [],
  )
  expectSame('no call without its request', rows.strays, [])
  expectSame('the rollup', rows.rollup, toSums(rows.all))
  expectSame('calls that upstreams can place', upstreams.complaints, [])
  const mistakes = lines.filter(({ level }: LogLine) => level === 'error')
  expectSame('no mistake of our own in the log', mistakes, [])
  return flaws.map(([expected, came]) => complain(story, null, expected, came))
}

function toSums(rows: readonly Row[]): Sums {
  const count = (...statuses: string[]) => rows.filter(({ status }) => statuses.includes(status)).length
  const sum = (field: 'prompt_tokens' | 'completion_tokens' | 'cost_nano_usd') =>
    rows.reduce((total, row) => total + row[field], 0)
  return {
    requests: rows.length,
    errors: count('failed', 'abandoned'),
    cuts: count('cut'),
    prompt_tokens: sum('prompt_tokens'),
    completion_tokens: sum('completion_tokens'),
    cost_nano_usd: sum('cost_nano_usd'),
  }
}

function judgeRow(facts: Facts, rows: Rows, outcome: Outcome, held: Held | null): Flaw[] {
  const { plan } = outcome
  const found = rows.byUser.get(String(plan.number)) ?? []
  const [row] = found
  if (found.length > 1) return [['one row a request at most', found]]
  if (held && row && row.id !== held.id) return [[`a row with the id of x-request-id, ${held.id}`, row.id]]
  if (held && !row && rows.byId.has(held.id)) return [['a row with the user of its request', rows.byId.get(held.id)]]
  if (!row) {
    const reached = facts.callsOf(plan.number)
    if (reached.length > 0) return [['a row for what an upstream was asked', reached.map(({ id }) => id)]]
    const isRefusal = held === null || held.outcome.plan.refusal || BEFORE_DISPATCH.has(held.error?.code ?? '')
    return isRefusal ? [] : [['a row', held?.error ?? 'an answer without one']]
  }
  if (plan.refusal) return [['no row for what was refused', row]]
  const isHalf = plan.manner.kind === 'leaves' && plan.manner.when === 'half'
  if (isHalf && outcome.end === 'left') return [['no row for half a request', row]]
  if (toParts(row).some(({ costNanoUsd, tokens }) => costNanoUsd < 0 || tokens < 0))
    return [['a request that is no less than its calls', row]]
  const wanted = {
    key_id: plan.key,
    endpoint: plan.way,
    model: toSlug(plan.model),
    stream: plan.stream ? 1 : 0,
    attempts: 1 + row.calls.length,
  }
  const told = held ? toTold(held, row) : toUntold(facts, outcome, row)
  return differences(row, { ...wanted, ...told })
}

function toTold({ outcome, report, error }: Held, row: Row): Partial<Row> {
  if (error) {
    const hasBegun = (report?.choices.length ?? 0) > 0
    return { status: hasBegun ? 'cut' : 'failed', http_status: outcome.status, error_code: error.code }
  }
  const { usage, costNanoUsd } = report ?? {}
  const { headers, plan } = outcome
  // A stream begun by a keep-alive has no header for it.
  const isUnmet = headers.has('x-tollgate-upstream')
    ? headers.get('x-tollgate-schema') === 'unmet'
    : plan.format === 'schema' && row.error_code === 'schema_not_met'
  return {
    status: 'ok',
    http_status: 200,
    error_code: isUnmet ? 'schema_not_met' : null,
    ...(usage ? { prompt_tokens: usage.prompt, cached_tokens: usage.cached, completion_tokens: usage.completion } : {}),
    ...(costNanoUsd == null ? {} : { cost_nano_usd: costNanoUsd }),
  }
}

/** For disconnected clients: abandoned only by a kill, and then at its calls' reservations, except failed ones. */
function toUntold({ isKilled }: Facts, outcome: Outcome, row: Row): Partial<Row> {
  if (row.status !== 'abandoned') return {}
  // A disconnected client may miss a kill before its tokens were counted.
  const { fromMs, toMs } = stretchOf(outcome)
  if (!isKilled({ fromMs, toMs: outcome.end === 'left' ? toMs + COUNTING_MS : toMs }))
    return { status: 'settled, since nobody killed the server' }
  return { cost_nano_usd: toGivenUp(row), estimated: 1 }
}

const differences = (row: Row, wanted: Readonly<Record<string, unknown>>): Flaw[] =>
  Object.entries(wanted)
    .filter(([name, value]) => !Object.entries(row).some(([field, has]) => field === name && has === value))
    .map(([name, value]) => [`a row with ${name} = ${JSON.stringify(value)}`, row])

function judgeSeen(facts: Facts, rows: Rows): string[] {
  const { story } = facts
  const outcomes = new Map(story.outcomes.map((outcome) => [outcome.plan.number, outcome]))
  const flaws: string[] = []
  const reached = new Map<string, SeenCall>()
  const resent = new Set<string>()
  for (const call of story.upstreams.calls) {
    const outcome = outcomes.get(call.request) ?? null
    const flaw = (expected: string, came: unknown) => flaws.push(complain(story, outcome, expected, came))
    const name = `${call.id}-${call.number}`
    const earlier = reached.get(name)
    // A reset of a kept connection looks like an idle close: the request is sent once more on a new one.
    if (earlier && (earlier.plan.fault !== 'reset' || resent.has(name))) flaw('every call once', name)
    if (earlier) resent.add(name)
    reached.set(name, call)
    const row = rows.byId.get(call.id)
    if (!row) flaw('a row for what an upstream was asked', name)
    else {
      const record = call.number === 1 ? row : row.calls.find(({ number }) => number === call.number)
      if (row.user !== String(call.request)) flaw(`a row of user ${call.request}`, row)
      if (!record) flaw(`call ${call.number} on record`, row)
      else if ((call.number > 1 || row.attempts === 1) && record.upstream !== call.upstream)
        flaw(`call ${call.number} on record at ${call.upstream}`, record)
    }
  }
  for (const row of rows.all) {
    const outcome = outcomes.get(Number(row.user)) ?? null
    for (const number of [1, ...row.calls.map((call) => call.number)]) {
      if (reached.has(`${row.id}-${number}`)) continue
      const isExcused = outcome !== null && whyUnseen(facts, row, number, outcome) !== null
      if (!isExcused) flaws.push(complain(story, outcome, `call ${number} at its upstream`, row))
    }
  }
  return flaws
}

/**
 * Why a recorded call never reached its upstream:
 * - `killed`: the server was, between the record and the call;
 * - `left`: its client had disconnected by then;
 * - `refused`: its upstream refused connections;
 * - `given up`: another choice of the same response had failed;
 * - `passed over`: the first target was not called, because its upstream was at capacity or its breaker had opened.
 */
export function whyUnseen(facts: Facts, row: Row, number: number, outcome: Outcome): string | null {
  const during = stretchOf(outcome)
  const record = number === 1 ? null : (row.calls.find((call) => call.number === number) ?? null)
  const routes = facts.routesOf(outcome)
  if (row.status === 'abandoned') return 'killed'
  if (outcome.end === 'left') return 'left'
  if (outcome.end === 'lost' && facts.isKilled(during)) return 'left'
  const at = record ? [...routes].filter((upstream) => upstream === record.upstream) : routes
  if ((record?.error_code ?? 'connection') === 'connection' && facts.isClosed(at, during)) return 'refused'
  const isBroken = facts.callsOf(outcome.plan.number).some(({ plan }) => plan.yields !== 'answer')
  if (outcome.plan.n > 1 && (isBroken || facts.isClosed(routes, during))) {
    if (number === 1 || record?.error_code === 'aborted') return 'given up'
  }
  if (number === 1 && (routes.has('delta') || facts.isAvoided(outcome))) return 'passed over'
  return null
}
