/**
 * Takes over costs that a provider billed beyond the ledger, such as for calls that timed out. A correction is a settled row of the reserved key `correction`,
 * with its day, upstream, and model. It counts in reports and totals, but in no budget. Its reason and actor are in the audit log. Its ID is derived from the
 * corrected line, so taking the same bill twice changes nothing.
 */
import { NO_COUNTS, USUAL_TERMS } from '../../domain/call-counts.ts'
import { toFirstId } from '../../domain/id.ts'
import { CORRECTION } from '../../domain/report-filters.ts'
import { ServiceError } from '../../domain/service-error.ts'
import { DAY_MS, toDay } from '../../domain/time.ts'
import type { Actor, ConfigStore } from '../../store/config-store.ts'
import type { SettledRow } from '../../store/ledger-rows.ts'
import type { LedgerReader } from '../../store/ledger-store.ts'
import type { Ledger } from '../ledger.ts'
import type { Figures } from './bill.ts'
import type { Cell } from './compare.ts'

export interface Correction {
  dayMs: number
  upstream: string
  upstreamModel: string
  credential: number | null
  /** Model ID of clients. */
  model: string
  nanoUsd: number
  /** The ledger's amount before, which distinguishes later corrections of the same line. */
  ledgerNanoUsd: number
  /** Without requests: a correction counts as one. */
  figures: Omit<Figures, 'requests'>
}

/** Lines whose cost is above the ledger's. Lines without a model can't be taken. Throws `bill_unusable` if an amount is too large for the ledger. */
export function toCorrections(cells: readonly Cell[]): Correction[] {
  return cells.flatMap(({ dayMs, account, model, ledgerModel, upstreamModels, figures, nanoUsd }) => {
    const [upstream] = account.upstreams
    if (model === null || upstream === undefined || nanoUsd === null || nanoUsd.isEqual) return []
    const gap = nanoUsd.provider - nanoUsd.ledger
    if (gap <= 0n) return []
    const upstreamModel = upstreamModels[0] ?? model
    const missing = figures.filter(({ figure, provider, ledger }) => figure !== 'requests' && provider > ledger)
    const correction = {
      ...{ dayMs, upstream, upstreamModel, credential: account.credential, model: ledgerModel ?? upstreamModel },
      ...{ nanoUsd: Number(gap), ledgerNanoUsd: Number(nanoUsd.ledger) },
      figures: Object.fromEntries(missing.map(({ figure, provider, ledger }) => [figure, provider - ledger])),
    }
    const amounts = [correction.nanoUsd, correction.ledgerNanoUsd, ...Object.values(correction.figures)]
    if (amounts.every(Number.isSafeInteger)) return correction
    throw new ServiceError(
      { kind: 'bill_unusable' },
      `The bill has more of ${model} on ${toDay(dayMs)} than the ledger can hold. Check the amounts of the export.`,
    )
  })
}

/** Noon, so that rounding of times never changes the day. */
const AT_MS = DAY_MS / 2

function toId({ dayMs, upstream, upstreamModel, credential, ledgerNanoUsd }: Correction): string {
  const place = JSON.stringify([dayMs, upstream, upstreamModel, credential, ledgerNanoUsd])
  return toFirstId(dayMs + AT_MS) + new Bun.CryptoHasher('sha256').update(place).digest('hex').slice(0, 20)
}

function toRow(correction: Correction, instance: string): SettledRow {
  const { dayMs, upstream, upstreamModel, credential, model, nanoUsd, figures } = correction
  const { input = 0, cached = 0, cache_write = 0, cache_write_1h = 0, output = 0, reasoning = 0 } = figures
  const { audio_input = 0, image_input = 0, audio_output = 0, image_output = 0, web_searches = 0 } = figures
  return {
    ...{ id: toId(correction), instance, keyId: CORRECTION, teamId: null, user: null },
    ...{ model, endpoint: 'chat', stream: 0, createdMs: dayMs + AT_MS, attempts: 1 },
    ...{ upstream, upstreamModel, credential, lane: 'translated', priceId: null, upstreamRequestId: null },
    ...{ reservedPromptTokens: 0, reservedCompletionTokens: 0, reservedNanoUsd: 0 },
    ...{ status: 'ok', httpStatus: null, errorCode: null, durationMs: null, firstTokenMs: null, estimated: 0 },
    ...NO_COUNTS,
    ...{ promptTokens: input, cachedTokens: cached, cacheWriteTokens: cache_write, cacheWrite1hTokens: cache_write_1h },
    ...{ completionTokens: output, reasoningTokens: reasoning, webSearches: web_searches },
    ...{ audioPromptTokens: audio_input, audioCompletionTokens: audio_output },
    ...{ imageTokens: image_input + image_output, imageCompletionTokens: image_output },
    ...{ ...USUAL_TERMS, costNanoUsd: nanoUsd, reportedNanoUsd: nanoUsd },
  }
}

export interface Corrections {
  /** Throws `ledger_behind`. Amounts must be checked. */
  take(corrections: readonly Correction[], reason: string, by: Actor): Promise<{ taken: number; nanoUsd: number }>
}

export interface CorrectionDeps {
  ledger: Pick<Ledger, 'open' | 'settle' | 'flush'>
  reader: Pick<LedgerReader, 'counted'>
  store: Pick<ConfigStore, 'changeSettings'>
  instance: string
}

export function createCorrections({ ledger, reader, store, instance }: CorrectionDeps): Corrections {
  let previous: Promise<unknown> = Promise.resolve()

  const takeOne = async (correction: Correction, reason: string, by: Actor): Promise<number> => {
    const row = toRow(correction, instance)
    const stored = reader.counted(row.id)
    if (stored?.nanoUsd === row.costNanoUsd && !stored.isOpen) return 0
    const { upstream, model, nanoUsd: cost_nano_usd } = correction
    const after = { day: toDay(correction.dayMs), upstream, model, cost_nano_usd, reason }
    // Written before the row, so that no row lacks its reason.
    await store.changeSettings(by, () => ({
      value: null,
      change: { action: 'ledger.correct', subject: row.id, detail: { before: {}, after }, write: {} },
    }))
    // In one write of the journal.
    await Promise.all([stored ? null : ledger.open(row), ledger.settle(row)])
    return row.costNanoUsd
  }

  const takeAll = async (corrections: readonly Correction[], reason: string, by: Actor) => {
    // Earlier corrections must be in the store, which finds them by ID.
    if ((await ledger.flush()).waiting > 0)
      throw new ServiceError({ kind: 'ledger_behind' }, 'The database is behind the journal. No corrections taken.')
    const sums = { taken: 0, nanoUsd: 0 }
    for (const correction of corrections) {
      const nanoUsd = await takeOne(correction, reason, by)
      sums.taken += Number(nanoUsd > 0)
      sums.nanoUsd += nanoUsd
    }
    await ledger.flush()
    return sums
  }

  return {
    take(corrections, reason, by) {
      const result = previous.then(() => takeAll(corrections, reason, by))
      previous = result.catch(() => {})
      return result
    },
  }
}
