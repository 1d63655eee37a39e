/**
 * Compares a provider's bill with the ledger, by UTC day, account, and model: quantities first, then money. Both sides sum into the same cells. For lines
 * without a model, a cell covers the whole day.
 */
import { keysOf } from '../../domain/json.ts'
import { ATTO_PER_NANO } from '../../domain/price.ts'
import { DAY_MS } from '../../domain/time.ts'
import type { CallReader, CallRef, CallSum } from '../../store/report-store.ts'
import { type Bill, type BillPart, FIGURES, type Figure, type Figures } from './bill.ts'

/** Unit of comparison: a credential, or all of a provider's upstreams. */
export interface Account {
  name: string
  upstreams: readonly string[]
  /** null: all. */
  credential: number | null
  /** The provider's ID of the credential; null: all. */
  keyId: string | null
}

export interface Sides<Value> {
  provider: Value
  ledger: Value
  isEqual: boolean
}

export interface Cell {
  dayMs: number
  account: Account
  /** null: all models. */
  model: string | null
  /** Corresponding names in the ledger. */
  upstreamModels: readonly string[]
  /** One of the model IDs that clients requested. */
  ledgerModel: string | null
  /** As the provider reports them. */
  figures: (Sides<number> & { figure: Figure })[]
  /** null if the export has no costs for this cell. */
  nanoUsd: Sides<bigint> | null
  /** Calls that failed before using anything. */
  failed: number
  only: 'provider' | 'ledger' | null
  isEqual: boolean
}

export interface Comparison {
  cells: Cell[]
  /** Total of cells with costs. */
  total: { provider: bigint; ledger: bigint }
  days: number
}

/** A provider's bill has dated names, such as `gpt-5-2026-01-02`, while calls may use `gpt-5`. */
const DATED = /[-@](?:\d{4}-\d\d-\d\d|\d{8}|\d{4})$/
const toStem = (name: string) => name.replace(DATED, '').replace(/-latest$|(?<=^claude-.*)-0$/, '')

/** Joins names under one stem only if an undated name could stand for a dated one of the other side. */
function createNaming(billed: ReadonlySet<string>, called: ReadonlySet<string>) {
  const stems = Map.groupBy(billed.union(called), toStem)
  const joined = new Map<string, string>()
  for (const [stem, names] of stems) {
    const isSame = names.every((name) => billed.has(name) && called.has(name))
    if (!isSame && names.some((name) => !DATED.test(name))) for (const name of names) joined.set(name, stem)
  }
  return (name: string) => joined.get(name) ?? name
}

const ofLedger: Record<Figure, (sum: CallSum) => number> = {
  requests: ({ requests }) => requests,
  input: ({ promptTokens }) => promptTokens,
  cached: ({ cachedTokens }) => cachedTokens,
  cache_write: ({ cacheWriteTokens }) => cacheWriteTokens,
  cache_write_1h: ({ cacheWrite1hTokens }) => cacheWrite1hTokens,
  audio_input: ({ audioPromptTokens }) => audioPromptTokens,
  image_input: ({ imageTokens, imageCompletionTokens }) => imageTokens - imageCompletionTokens,
  output: ({ completionTokens }) => completionTokens,
  reasoning: ({ reasoningTokens }) => reasoningTokens,
  audio_output: ({ audioCompletionTokens }) => audioCompletionTokens,
  image_output: ({ imageCompletionTokens }) => imageCompletionTokens,
  web_searches: ({ webSearches }) => webSearches,
}

/** Rounding: the ledger rounds each call, a provider its lines. */
export const ROUNDING_NANO_USD = 100_000n

/** @param ppm tolerance in millionths of the larger side. */
function isWithin(one: bigint, other: bigint, ppm: bigint): boolean {
  const [less, more] = one < other ? [one, other] : [other, one]
  return (more - less) * 1_000_000n <= more * ppm
}

interface Sums {
  figures: Figures
  atto: bigint | null
  calls: CallSum[]
}

/** Cells of one account and day. */
class Day {
  readonly sums = new Map<string | null, Sums>()

  of(model: string | null): Sums {
    const found = this.sums.get(model) ?? { figures: {}, atto: null, calls: [] }
    this.sums.set(model, found)
    return found
  }
}

export interface Wanted {
  accounts: readonly Account[]
  /** Millionths. */
  tolerancePpm: bigint
  /** Days in the export, at most. */
  span: { fromMs: number; untilMs: number }
}

export async function compareBill(
  bill: Bill,
  reader: Pick<CallReader, 'sums'>,
  { accounts, tolerancePpm, span }: Wanted,
): Promise<Comparison> {
  const isAsked = (dayMs: number) => dayMs >= span.fromMs && dayMs < span.untilMs
  const days: Record<BillPart, Set<number>> = {
    usage: new Set([...bill.days.usage].filter(isAsked)),
    costs: new Set([...bill.days.costs].filter(isAsked)),
  }
  const all = [...days.usage.union(days.costs)].sort((a, b) => a - b)
  const cells: Cell[] = []
  const calls = await readCalls(reader, accounts, all)
  for (const account of accounts) {
    const isOwn = ({ dayMs, keyId }: { dayMs: number; keyId: string | null }) =>
      isAsked(dayMs) && (account.keyId === null || account.keyId === keyId)
    const usage = bill.usage.filter((line) => days.usage.has(line.dayMs) && isOwn(line))
    // Costs without keys can't be told apart.
    const hasKeys = account.keyId === null || bill.costs.every(({ keyId }) => keyId !== null)
    const costs = hasKeys ? bill.costs.filter((line) => days.costs.has(line.dayMs) && isOwn(line)) : []
    const own = calls.filter((call) => isOf(account, call))
    const naming = createNaming(
      new Set([...usage, ...costs].flatMap(({ model }) => model ?? [])),
      new Set(own.map(({ upstreamModel }) => upstreamModel)),
    )
    const [usageOf, costsOf, callsOf] = [byDay(usage), byDay(costs), byDay(own)]
    for (const dayMs of all) {
      const found = compareDay(account, dayMs, {
        usage: days.usage.has(dayMs) ? (usageOf.get(dayMs) ?? []) : null,
        costs: hasKeys && days.costs.has(dayMs) ? (costsOf.get(dayMs) ?? []) : null,
        calls: callsOf.get(dayMs) ?? [],
        ...{ naming, tolerancePpm },
      })
      // There may be too many cells for a spread.
      for (const cell of found) cells.push(cell)
    }
  }
  const paid = cells.flatMap(({ nanoUsd }) => nanoUsd ?? [])
  const sum = (values: bigint[]) => values.reduce((before, value) => before + value, 0n)
  return {
    cells,
    total: { provider: sum(paid.map(({ provider }) => provider)), ledger: sum(paid.map(({ ledger }) => ledger)) },
    days: all.length,
  }
}

const byDay = <Of extends { dayMs: number }>(list: readonly Of[]) => Map.groupBy(list, ({ dayMs }) => dayMs)

export const isOf = (
  { upstreams, credential }: Account,
  call: Pick<CallSum | CallRef, 'upstream' | 'credential'>,
): boolean => upstreams.includes(call.upstream) && (credential === null || credential === (call.credential ?? 1))

async function readCalls(reader: Pick<CallReader, 'sums'>, accounts: readonly Account[], days: readonly number[]) {
  const upstreams = [...new Set(accounts.flatMap(({ upstreams }) => upstreams))]
  const [fromMs, last] = [days[0], days.at(-1)]
  const sums = new Map<string, CallSum>()
  if (fromMs === undefined || last === undefined || upstreams.length === 0) return []
  for await (const page of reader.sums({ fromMs, untilMs: last + DAY_MS }, upstreams))
    for (const sum of page) {
      const name = JSON.stringify([sum.dayMs, sum.upstream, sum.credential, sum.upstreamModel])
      const before = sums.get(name)
      if (before) addSum(before, sum)
      else sums.set(name, sum)
    }
  return [...sums.values()]
}

function addSum(sum: CallSum, more: CallSum): void {
  for (const name of keysOf(sum)) {
    if (name === 'dayMs' || name === 'upstream' || name === 'credential' || name === 'upstreamModel') continue
    if (name === 'model') sum.model ??= more.model
    else sum[name] += more[name]
  }
}

interface Lines {
  /** null: not in the export. */
  usage: Bill['usage'] | null
  costs: Bill['costs'] | null
  calls: readonly CallSum[]
  naming(name: string): string
  tolerancePpm: bigint
}

function compareDay(account: Account, dayMs: number, { usage, costs, calls, naming, tolerancePpm }: Lines): Cell[] {
  const day = new Day()
  const isByModel = (lines: readonly { model: string | null }[]) => lines.every(({ model }) => model !== null)
  const usageByModel = usage !== null && isByModel(usage)
  const costsByModel = costs !== null && isByModel(costs)
  const toCell = (model: string | null, each: boolean) => day.of(each && model !== null ? naming(model) : null)
  for (const { model, figures } of usage ?? []) {
    const cell = toCell(model, usageByModel)
    for (const figure of keysOf(figures)) cell.figures[figure] = (cell.figures[figure] ?? 0) + (figures[figure] ?? 0)
  }
  for (const { model, atto } of costs ?? []) {
    const cell = toCell(model, costsByModel)
    cell.atto = (cell.atto ?? 0n) + atto
  }
  for (const call of calls) {
    if (usageByModel || costsByModel) day.of(naming(call.upstreamModel)).calls.push(call)
    if ((usage !== null && !usageByModel) || (costs !== null && !costsByModel)) day.of(null).calls.push(call)
  }
  // Figures that this provider reports for its other models.
  const reported = new Set((usage ?? []).flatMap(({ figures }) => keysOf(figures)))
  const names = reported.size > 0 ? reported : new Set<Figure>(['requests', 'input', 'output'])
  return [...day.sums]
    .map(([model, sums]): Cell => {
      const hasUsage = usage !== null && (model !== null) === usageByModel
      const hasCosts = costs !== null && (model !== null) === costsByModel
      const figures = !hasUsage
        ? []
        : keysOf(FIGURES)
            .filter((figure) => names.has(figure))
            .map((figure) => {
              const provider = sums.figures[figure] ?? 0
              const ledger = sums.calls.reduce((before, call) => before + ofLedger[figure](call), 0)
              // A correction is one request, whatever number the provider counted.
              const isKnown = figure === 'requests' && sums.calls.some(({ corrections }) => corrections > 0)
              const isEqual = isKnown || isWithin(BigInt(provider), BigInt(ledger), tolerancePpm)
              return { figure, provider, ledger, isEqual }
            })
      const nanoUsd = hasCosts ? toMoney(sums, tolerancePpm) : null
      const isBilled = Object.keys(sums.figures).length > 0 || (sums.atto ?? 0n) > 0n
      const isCalled = sums.calls.some(({ requests, costNanoUsd }) => requests > 0 || costNanoUsd > 0)
      const isEqual = figures.every((one) => one.isEqual) && (nanoUsd?.isEqual ?? true)
      return {
        ...{ dayMs, account, model, figures, nanoUsd, isEqual },
        upstreamModels: [...new Set(sums.calls.map(({ upstreamModel }) => upstreamModel))],
        ledgerModel: sums.calls.find(({ model }) => model !== null)?.model ?? null,
        failed: sums.calls.reduce((before, { failed }) => before + failed, 0),
        only: isEqual || isBilled === isCalled ? null : isBilled ? 'provider' : 'ledger',
      }
    })
    .sort(({ model: a }, { model: b }) => ((a ?? '') < (b ?? '') ? -1 : 1))
}

function toMoney({ atto, calls }: Sums, tolerancePpm: bigint): Sides<bigint> {
  const provider = ((atto ?? 0n) + ATTO_PER_NANO / 2n) / ATTO_PER_NANO
  const ledger = calls.reduce((before, { costNanoUsd }) => before + BigInt(costNanoUsd), 0n)
  const gap = provider > ledger ? provider - ledger : ledger - provider
  return { provider, ledger, isEqual: gap < ROUNDING_NANO_USD || isWithin(provider, ledger, tolerancePpm) }
}
