/**
 * Two months of a small company, made up: teams, keys, models, a weekly rhythm, an afternoon on which an upstream was down. All of it goes in
 * through the code by which a server writes it, and the same comes out each time, but for the day on which it ends. For `take.ts`, and for
 * whoever wants to look at the dashboard with something in it: `bun test/pictures/month.ts FOLDER`.
 */

import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { toBilled } from '../../src/accounting/bill.ts'
import { applyCatalog, toApplyOptions } from '../../src/catalog/apply.ts'
import { editModel } from '../../src/catalog/edit.ts'
import { parseCatalog } from '../../src/catalog/file.ts'
import { mintId } from '../../src/domain/id.ts'
import { costNanoUsd } from '../../src/domain/price.ts'
import { DAY_MS, dayOf, HOUR_MS } from '../../src/domain/time.ts'
import { NO_USAGE, type PricingItem } from '../../src/domain/usage.ts'
import { createKey, createTeam } from '../../src/keys/service.ts'
import { openMark } from '../../src/ledger/mark.ts'
import { prepareDataFolder } from '../../src/store/data-folder.ts'
import { type LedgerRecord, type SettledRow, toOnlyCall } from '../../src/store/ledger-rows.ts'
import { checkpointHere } from '../../src/store/sqlite/checkpoint.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { countRequests } from '../../src/store/sqlite/ledger-reader.ts'
import { migrate } from '../../src/store/sqlite/migrate.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { createRandom } from '../support/random.ts'
import { type Company, type KeyPlan, type ModelPlan, toCompany } from './company.ts'

const DAYS = 64
const BATCH = 500
/** When the local models were down, and for how long. */
const OUTAGE = { day: 9, hour: 13, hours: 5 }
const INSTANCE = mintId(0)
/** The newest request was retried: the first call took this long to fail. */
const FAILED_MS = 420
const RETRIED = 'anthropic/claude-sonnet-4-5'

/** Of an hour, what share of a day's requests: nights are quiet, noon is not. UTC, for people a little to the east. */
const byHour = (hour: number) => Math.max(0.04, Math.sin(((hour - 4) / 15) * Math.PI)) * (hour === 11 ? 0.7 : 1)
const byDay = (weekday: number) => [0.16, 0.9, 1, 1.05, 1, 0.8, 0.22][weekday] ?? 1

/**
 * @param nowMs when it ends.
 * @param baseUrl in place of where their upstreams are.
 * @param names in place of theirs.
 */
export async function writeMonth(
  dataFolder: string,
  nowMs: number,
  baseUrl?: string,
  names: Readonly<Record<string, string>> = {},
): Promise<void> {
  const company = toCompany(names, baseUrl)
  const { catalog: text } = company
  prepareDataFolder(dataFolder)
  const path = join(dataFolder, 'catalog.yaml')
  await Bun.write(path, text)
  const database = openDatabase(databasePath(dataFolder), { busyMs: 0 })
  try {
    migrate(database, null, nowMs - DAYS * DAY_MS)
    const ids = await configure(database, { path, company }, nowMs)
    writeRequests(database, company, ids, nowMs)
    openMark(dataFolder, countRequests(database)).close()
    checkpointHere(database)
  } finally {
    database.close()
  }
}

async function configure(
  database: Database,
  { path, company }: { path: string; company: Company },
  nowMs: number,
): Promise<ReadonlyMap<string, Owner>> {
  const store = createConfigStore(database)
  const ago = (days: number) => ({ actor: 'cli', nowMs: nowMs - Math.round(days * DAY_MS) })
  const environment = { OPENAI_API_KEY: 'x', ANTHROPIC_API_KEY: 'x' }
  const { catalog: text } = company
  const { catalog } = await parseCatalog(text, { name: path, environment })
  const source = { name: path, path, origin: 'file' as const, text, modelFiles: [] }
  await applyCatalog(store, catalog, toApplyOptions(source, '0.1.0', ago(DAYS)))
  const teams = new Map<string, string>()
  for (const { name, budget } of company.teams) {
    const { id } = await createTeam(store, { name, ...(budget && { budget: toBudget(budget) }) }, ago(DAYS - 0.1))
    teams.set(name, id)
  }
  const owners = new Map<string, Owner>()
  for (const [at, { name, team, budget, models = [] }] of company.keys.entries()) {
    const options = { name, team, models, ...(budget && { budget: toBudget(budget) }) }
    const { key } = await createKey(store, options, ago(DAYS - 0.2 - at / 50))
    owners.set(name, { keyId: key.id, teamId: teams.get(team) ?? null })
  }
  await editModel(store, company.nameOf('meta/llama-3.3-70b'), { maxOutputLength: 8_192 }, ago(16.4))
  await editModel(store, 'openai/gpt-5-mini', { pricing: [{ prompt: '0.00000025', completion: '0.000002' }] }, ago(5.3))
  return owners
}

const toBudget = (usd: number) => ({ nanoUsd: usd * 1e9, period: 'month' as const })

interface Owner {
  keyId: string
  teamId: string | null
}

function writeRequests(database: Database, company: Company, owners: ReadonlyMap<string, Owner>, nowMs: number): void {
  const store = createLedgerWriter(database)
  const random = createRandom(7)
  const priceOf = database.query<{ priceId: string | null; pricing: string }, [string]>(
    "SELECT fields ->> 'priceId' AS priceId, fields -> 'pricing' AS pricing FROM catalog_entries WHERE kind = 'models' AND name = ? AND fields -> 'pricing' IS NOT NULL ORDER BY origin LIMIT 1",
  )
  const prices = new Map(
    company.models.map(({ slug }) => {
      const { priceId = null, pricing = '[]' } = priceOf.get(slug) ?? {}
      return [slug, { priceId, pricing: JSON.parse(pricing) as PricingItem[] }]
    }),
  )
  let records: LedgerRecord[] = []
  const flush = () => {
    for (const { error } of store.apply(records)) throw error
    records = []
  }
  const firstMs = dayOf(nowMs) - (DAYS - 1) * DAY_MS
  let newest: LedgerRecord | undefined
  for (let hourMs = firstMs; hourMs <= nowMs; hourMs += HOUR_MS) {
    const times = toRequests(company, hourMs, firstMs, random).filter(({ createdMs }) => createdMs < nowMs - 60_000)
    for (const { createdMs, key } of times) {
      const model = pickModel(company, key, random)
      const owner = owners.get(key.name)
      const price = prices.get(model.slug)
      if (!owner || !price) throw new Error(`${key.name} or ${model.slug} is not there`)
      const made = { createdMs, key, model, isDown: isDown(createdMs, nowMs), random }
      const record: LedgerRecord = { kind: 'settle', row: toRow(made, owner, price) }
      records.push(record)
      if (isOkToRetried(record)) newest = record
      if (records.length >= BATCH) flush()
    }
  }
  records.push(toRetried(newest, nowMs - 60_000))
  flush()
}

const isOkToRetried = (record: LedgerRecord) =>
  record.kind === 'settle' && record.row.status === 'ok' && record.row.model === RETRIED

/** A copy of that request, whose first call failed because the provider was overloaded. */
function toRetried(record: LedgerRecord | undefined, createdMs: number): LedgerRecord {
  if (record?.kind !== 'settle') throw new Error(`no request to ${RETRIED}`)
  const row = { ...record.row, id: mintId(createdMs), createdMs, attempts: 2 }
  const call = { ...toOnlyCall(row), status: row.status }
  const waitMs = 2 * FAILED_MS
  const refused = {
    ...call,
    ...{ status: 'failed' as const, httpStatus: 529, errorCode: 'upstream_failed' },
    ...{ durationMs: FAILED_MS, firstTokenMs: null },
    ...toBilled({
      ...{ usage: NO_USAGE, estimated: false, costNanoUsd: 0 },
      ...{ mode: null, reportedNanoUsd: null, isUnpriced: false },
    }),
  }
  const calls = [refused, { ...call, number: 2, reason: 'retry' as const, createdMs: createdMs + waitMs }]
  const late = (ms: number | null) => ms && ms + waitMs
  return {
    kind: 'settle',
    row: { ...row, durationMs: late(row.durationMs), firstTokenMs: late(row.firstTokenMs) },
    calls,
  }
}

/** Who asks when within an hour, in order. */
function toRequests({ keys }: Company, hourMs: number, firstMs: number, random: () => number) {
  const date = new Date(hourMs)
  // A company that finds more uses for it.
  const growth = 0.75 + (hourMs - firstMs) / (DAYS * DAY_MS) / 2
  const rhythm = byHour(date.getUTCHours()) * byDay(date.getUTCDay()) * growth
  return keys
    .flatMap((key) => {
      const wanted = key.isSteady ? key.requestsPerHour * 0.6 : key.requestsPerHour * rhythm
      const count = Math.floor(wanted * (0.7 + 0.6 * random()) + random())
      return Array.from({ length: count }, () => ({ createdMs: hourMs + Math.floor(random() * HOUR_MS), key }))
    })
    .sort((a, b) => a.createdMs - b.createdMs)
}

function pickModel({ models }: Company, { uses }: KeyPlan, random: () => number): ModelPlan {
  let left = random()
  const [[first] = []] = Object.entries(uses)
  const slug =
    Object.entries(uses).find(([, share]) => {
      left -= share
      return left < 0
    })?.[0] ?? first
  const model = models.find((one) => one.slug === slug)
  if (!model) throw new Error(`there is no ${slug}`)
  return model
}

const isDown = (ms: number, nowMs: number) => {
  const fromMs = dayOf(nowMs) - OUTAGE.day * DAY_MS + OUTAGE.hour * HOUR_MS
  return ms >= fromMs && ms < fromMs + OUTAGE.hours * HOUR_MS
}

interface Asked {
  createdMs: number
  key: KeyPlan
  model: ModelPlan
  isDown: boolean
  random: () => number
}

type Price = { priceId: string | null; pricing: PricingItem[] }

function toRow({ createdMs, key, model, isDown, random }: Asked, owner: Owner, price: Price): SettledRow {
  const { status, errorCode, httpStatus } = toEnd(model, isDown, random)
  const spread = () => Math.exp((random() + random() + random() - 1.5) * 1.4)
  const prompt = Math.round(key.promptTokens * spread())
  const completion =
    status === 'failed' ? 0 : Math.round(key.completionTokens * spread() * (status === 'cut' ? 0.4 : 1))
  const cacheRead = status === 'failed' || model.isLocal ? 0 : Math.round(prompt * random() * 0.5)
  const usage = { ...NO_USAGE, ...(status === 'failed' ? {} : { prompt, cacheRead, completion }) }
  const firstTokenMs = Math.round(model.firstTokenMs * spread() * (1 + prompt / 40_000))
  const tail = (completion / model.tokensPerSecond) * 1_000
  const id = mintId(createdMs)
  return {
    ...{ id, instance: INSTANCE, ...owner, model: model.slug, endpoint: 'chat', lane: 'translated' },
    ...{ upstream: model.upstream, upstreamModel: model.upstreamModel, stream: random() < 0.8 ? 1 : 0 },
    ...{ createdMs, reservedPromptTokens: prompt, reservedCompletionTokens: 4_096, reservedNanoUsd: 50_000_000 },
    ...{ priceId: price.priceId, user: key.users?.[Math.floor(random() * key.users.length)] ?? null },
    ...{ status, httpStatus, errorCode, attempts: 1 },
    durationMs: Math.round(status === 'failed' ? 200 + random() * 9_000 : firstTokenMs + tail),
    firstTokenMs: status === 'failed' ? null : firstTokenMs,
    ...toBilled({
      ...{ usage, estimated: false, costNanoUsd: costNanoUsd(price.pricing, usage) },
      ...{ mode: null, reportedNanoUsd: null, isUnpriced: false },
    }),
    upstreamRequestId: status === 'failed' ? null : `req_${id.slice(8)}`,
    credential: null,
  }
}

function toEnd({ isLocal }: ModelPlan, isDown: boolean, random: () => number) {
  const chance = random()
  const failed = (errorCode: string, httpStatus: number) => ({ status: 'failed' as const, errorCode, httpStatus })
  if (isLocal && isDown && chance < 0.8)
    return failed(chance < 0.6 ? 'upstream_failed' : 'upstream_timeout', chance < 0.6 ? 502 : 504)
  if (chance < 0.004) return failed('upstream_rate_limited', 429)
  if (chance < 0.006) return failed('upstream_timeout', 504)
  if (chance < 0.008) return failed('context_length_exceeded', 400)
  if (chance < 0.012) return { status: 'cut' as const, errorCode: 'client_closed_request', httpStatus: 499 }
  return { status: 'ok' as const, errorCode: null, httpStatus: 200 }
}

if (import.meta.main) {
  const [folder] = Bun.argv.slice(2)
  if (folder === undefined) throw new Error('Say into which folder: bun test/pictures/month.ts FOLDER')
  await writeMonth(folder, Date.now())
}
