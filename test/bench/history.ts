/** Writes a history into an unserved data folder: keys, and thirty days of requests, through the server's own code. */

import type { Database } from 'bun:sqlite'
import { USUAL_TERMS } from '../../src/domain/call-counts.ts'
import { mintId } from '../../src/domain/id.ts'
import { HOUR_MS, hourOf } from '../../src/domain/time.ts'
import { decideKey } from '../../src/keys/service.ts'
import { openMark } from '../../src/ledger/mark.ts'
import type { KeyWrite } from '../../src/store/config-store.ts'
import type { LedgerRecord, SettledRow } from '../../src/store/ledger-rows.ts'
import { checkpointHere } from '../../src/store/sqlite/checkpoint.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { countRequests } from '../../src/store/sqlite/ledger-reader.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { createRefusalWriter } from '../../src/store/sqlite/refusals.ts'
import { createPicker } from '../support/random.ts'
import { MODEL } from './tollgate.ts'

export interface History {
  requests: number
  /** Active keys, in addition to existing ones. */
  keys: number
}

const DAYS_MS = 30 * 24 * 3_600_000
/** Applied in the server's batch size. */
const BATCH = 500
const UPSTREAMS = ['heavy', 'light', 'spare']
/** The benchmark's model, and four no longer in the catalog. */
const MODELS = [MODEL, 'gone/one', 'gone/two', 'gone/three', 'gone/four']

/** @param nowMs when the history ends. */
export async function writeHistory(dataFolder: string, { requests, keys }: History, nowMs = Date.now()): Promise<void> {
  const database = openDatabase(databasePath(dataFolder), { busyMs: 0 })
  try {
    const ids = await createKeys(database, keys, nowMs - DAYS_MS)
    writeRequests(database, requests, ids, nowMs)
    writeRefusals(database, ids, nowMs)
    openMark(dataFolder, countRequests(database)).close()
    checkpointHere(database)
  } finally {
    database.close()
  }
}

/** One change, so one revision. */
function createKeys(database: Database, count: number, nowMs: number): Promise<string[]> {
  const by = { actor: 'bench', nowMs }
  return createConfigStore(database).changeKeys(by, (rows) => {
    const keys = Array.from({ length: count }, (_, at) => {
      const options = { name: `past ${at}`, models: [], budget: { nanoUsd: 1e15, period: 'month' as const } }
      return decideKey(rows, options, by).change?.write.keys ?? []
    }).flat()
    const write: KeyWrite = { keys }
    const change = { action: 'keys.create' as const, subject: `${count} keys`, detail: {}, write }
    return { value: keys.map(({ id }) => id), change: count === 0 ? null : change }
  })
}

function writeRequests(database: Database, count: number, keyIds: readonly string[], nowMs: number): void {
  const store = createLedgerWriter(database)
  const pick = createPicker(1)
  const [price] = database.query<{ id: string }, []>('SELECT id FROM prices').all()
  for (let from = 0; from < count; from += BATCH) {
    const records = Array.from({ length: Math.min(BATCH, count - from) }, (_, at): LedgerRecord => {
      const createdMs = nowMs - DAYS_MS + Math.floor(((from + at) / count) * (DAYS_MS - 120_000))
      return { kind: 'settle', row: toRow(createdMs, keyIds[pick(keyIds.length)] ?? 'none', price?.id ?? null, pick) }
    })
    for (const { error } of store.apply(records)) throw error
    if (from % (100 * BATCH) === 0) checkpointHere(database)
  }
}

/** Requests of each key in every fifth hour. */
function writeRefusals(database: Database, keyIds: readonly string[], nowMs: number): void {
  const writer = createRefusalWriter(database)
  const pick = createPicker(2)
  for (let hourMs = hourOf(nowMs - DAYS_MS); hourMs < nowMs - HOUR_MS; hourMs += HOUR_MS) {
    const refused = keyIds.filter(() => pick(5) === 0)
    writer.add(
      refused.map((keyId) => ({
        ...{ hourMs, keyId, teamId: '', code: 'request_limit', refused: 1 + pick(50) },
        lastMs: hourMs + pick(HOUR_MS),
      })),
    )
  }
}

function toRow(createdMs: number, keyId: string, priceId: string | null, pick: (below: number) => number): SettledRow {
  const [prompt, completion] = [200 + pick(20_000), 1 + pick(2_000)]
  const isFailed = pick(50) === 0
  return {
    id: mintId(createdMs),
    instance: INSTANCE,
    keyId,
    teamId: null,
    model: MODELS[pick(MODELS.length)] ?? MODEL,
    endpoint: 'chat',
    lane: 'translated',
    upstream: UPSTREAMS[pick(UPSTREAMS.length)] ?? 'heavy',
    upstreamModel: 'upstream-model',
    stream: pick(2),
    createdMs,
    reservedPromptTokens: prompt + pick(100),
    reservedCompletionTokens: 4_096,
    reservedNanoUsd: 3_000_000,
    priceId,
    user: pick(4) === 0 ? `user ${pick(500)}` : null,
    status: isFailed ? 'failed' : 'ok',
    httpStatus: isFailed ? 502 : 200,
    errorCode: isFailed ? 'upstream_error' : null,
    durationMs: 500 + pick(30_000),
    firstTokenMs: isFailed ? null : 100 + pick(2_000),
    promptTokens: isFailed ? 0 : prompt,
    cachedTokens: isFailed ? 0 : pick(prompt),
    cacheWriteTokens: 0,
    cacheWrite1hTokens: 0,
    completionTokens: isFailed ? 0 : completion,
    reasoningTokens: 0,
    audioPromptTokens: 0,
    audioCompletionTokens: 0,
    imageTokens: 0,
    imageCompletionTokens: 0,
    toolPromptTokens: 0,
    webSearches: 0,
    computeMs: 0,
    ...USUAL_TERMS,
    estimated: 0,
    costNanoUsd: isFailed ? 0 : prompt * 150 + completion * 600,
    // The most used provider's form of response IDs.
    upstreamRequestId: isFailed ? null : `req_${mintId(createdMs)}`,
    credential: null,
    attempts: 1,
  }
}

const INSTANCE = mintId(0)
