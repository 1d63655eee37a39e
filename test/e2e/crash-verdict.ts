/** Checks the ledger of a crash test against clients' responses and the upstream's calls. */
import { Database } from 'bun:sqlite'
import { expect } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expectCharges } from '../support/charges.ts'
import { type CrashBench, type CrashServer, faultOf, numberOf, toExpected } from './crash-harness.ts'
import { wrongTurns } from './crash-realtime.ts'

export interface RequestRow {
  id: string
  status: string
  stream: number
  endpoint: string
  lane: string
  estimated: number
  prompt_tokens: number
  cached_tokens: number
  completion_tokens: number
  cost_nano_usd: number
  reserved_nano_usd: number
  attempts: number
  user: string
}

export interface CallRow {
  request_id: string
  number: number
  status: string
  reserved_nano_usd: number
  cost_nano_usd: number
}

/** Call it once clients have ended and the server has been started a last time. Drains the server. */
export async function expectHonestLedger(bench: CrashBench): Promise<void> {
  const beside = await bench.run('ledger', 'verify', '--json')
  expect(beside).toMatchObject({ code: 0, stderr: '' })
  await expectCleanFolder(bench)
  const database = new Database(join(bench.data, 'tollgate.db'), { readonly: true })
  try {
    const rows = database.query<RequestRow, []>('SELECT * FROM requests').all()
    const calls = database.query<CallRow, []>('SELECT * FROM calls WHERE number > 1').all()
    expectAccount(bench, rows, calls)
    expect(wrongTurns(bench.heard, bench.talker.asked, rows)).toEqual([])
  } finally {
    database.close()
  }
}

/** Drains the server. */
export async function expectCleanFolder(server: CrashServer): Promise<void> {
  expect(await server.drain()).toBe(0)
  const after = await server.run('ledger', 'verify')
  expect(after).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringMatching(/^The ledger is consistent/),
  })
  expect(readdirSync(join(server.data, 'journal'))).toEqual([])
  const path = join(server.data, 'tollgate.db')
  const database = new Database(path, { readonly: true })
  try {
    expect(database.query('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }])
  } finally {
    database.close()
  }
  await expectCharges(path)
}

type Witnesses = Pick<CrashBench, 'received' | 'upstream'> & { isFaulty?: boolean }

/** @param calls the second and later ones of requests with several. */
export function expectAccount(witnesses: Witnesses, rows: RequestRow[], calls: CallRow[]): void {
  expect(calls.length).toBeGreaterThan(0)
  expect([...rows, ...calls].filter((row) => row.status === 'open')).toEqual([])
  expect(received(witnesses, rows)).toEqual([])
  expect(seen(witnesses, rows, calls)).toEqual([])
  // If a first call has failed, its request isn't abandoned as a whole.
  if (!witnesses.isFaulty) expect(wronglyAbandoned(rows, calls)).toEqual([])
  expect(wronglyCharged(witnesses, rows)).toEqual([])
}

const NAMELESS: ReadonlySet<string> = new Set([
  ...['embeddings', 'transcriptions', 'translations', 'gemini', 'speech', 'images', 'image_edits'],
])

/** Complete responses without exactly one settled row that is exact to the token and the nano-dollar. */
function received(bench: Witnesses, rows: RequestRow[]): unknown[] {
  const byUser = Map.groupBy(rows, (row) => row.user)
  return bench.received.flatMap((answer) => {
    const { calls, prompt, cached, completion, costNanoUsd, lane, endpoint } = toExpected(answer.number)
    const expected = {
      id: answer.id,
      status: 'ok',
      stream: answer.stream || endpoint === 'speech' ? 1 : 0,
      lane,
      endpoint,
      estimated: 0,
      prompt_tokens: prompt,
      cached_tokens: cached,
      completion_tokens: completion,
      cost_nano_usd: costNanoUsd,
      ...(bench.isFaulty ? {} : { attempts: calls }),
    }
    // Gemini's requests name no user.
    const found = byUser.get(String(answer.number)) ?? rows.filter(({ id }) => id === answer.id)
    const isRight =
      found.length === 1 &&
      Object.entries(expected).every(([name, value]) =>
        Object.entries(found[0] ?? {}).some(([n, v]) => n === name && v === value),
      )
    // Passed-through responses and bytes have no cost for the client; some responses have no ID of ours.
    const isUntold = lane === 'native' || (endpoint === 'speech' && !answer.stream)
    const isTold = isUntold ? answer.costNanoUsd === null : answer.costNanoUsd === costNanoUsd
    const isNamed = answer.answerId === (NAMELESS.has(endpoint) ? null : answer.id)
    return isRight && isTold && isNamed ? [] : [{ answer, expected, found }]
  })
}

/** Calls that reached the upstream and are not recorded. */
function seen(bench: Witnesses, rows: RequestRow[], calls: CallRow[]): unknown[] {
  const ids = new Set(rows.map((row) => `${row.id}-1`).concat(calls.map((call) => `${call.request_id}-${call.number}`)))
  return bench.upstream.requests
    .filter(({ method }) => method === 'POST')
    .map((request) => request.headers['x-client-request-id'] ?? '')
    .filter((callId) => !ids.has(callId))
}

/**
 * Complete responses cost their upstream's reported usage, received or not. Interrupted ones cost that, too, or an
 * estimate, or the cost of the calls that completed.
 */
function wronglyCharged(bench: Witnesses, rows: RequestRow[]): unknown[] {
  const calls = Map.groupBy(bench.upstream.requests, ({ headers }) => headers['x-client-request-id']?.slice(0, 32))
  return rows.flatMap((row) => {
    const made = calls.get(row.id) ?? []
    if (row.status === 'abandoned' || made[0] === undefined) return []
    const number = numberOf(made[0])
    const { costNanoUsd: exact, calls: needed } = toExpected(number)
    const isFirstFaulty = bench.isFaulty && ['fails', 'reset', 'cut'].includes(faultOf(number) ?? '')
    const answered = made.slice(isFirstFaulty ? 1 : 0).filter(({ answeredAtMs }) => answeredAtMs !== null).length
    const isExact = row.cost_nano_usd === exact && row.estimated === 0
    // A full journal can refuse a later call of a request whose first call succeeded.
    const isPart = row.cost_nano_usd === (answered * exact) / needed && row.estimated === 0
    const isRight = row.status === 'ok' ? isExact : isExact || row.estimated === 1 || isPart
    return isRight ? [] : [{ row, exact, calls: made.length, answered }]
  })
}

/** Abandoned requests whose cost isn't the sum of all reservations of their calls. */
function wronglyAbandoned(rows: RequestRow[], calls: CallRow[]): unknown[] {
  const further = Map.groupBy(calls, (call) => call.request_id)
  return rows
    .filter((row) => row.status === 'abandoned')
    .map((row) => ({ row, calls: further.get(row.id) ?? [] }))
    .filter(({ row, calls }) => {
      const reserved = calls.reduce((sum, call) => sum + call.reserved_nano_usd, row.reserved_nano_usd)
      const isRight = calls.every(
        (call) => call.status === 'abandoned' && call.cost_nano_usd === call.reserved_nano_usd,
      )
      return !isRight || row.cost_nano_usd !== reserved || row.estimated !== 1
    })
}
