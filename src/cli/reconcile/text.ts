/** Output of `tollgate reconcile`. */
import { toShortId } from '../../domain/id.ts'
import { count } from '../../domain/text.ts'
import { toDay } from '../../domain/time.ts'
import { FIGURES } from '../../ledger/reconcile/bill.ts'
import type { Cell, Comparison } from '../../ledger/reconcile/compare.ts'
import type { ProviderName } from '../../ledger/reconcile/providers.ts'
import type { CallRef } from '../../store/report-store.ts'
import { type Context, toDescribedTable, toPrintable, toShort } from '../io.ts'
import { toRounded } from '../money.ts'

/** Requests per line in JSON. */
export const MAX_NAMED = 20

export function toDocument(
  provider: ProviderName,
  { cells, total, days }: Comparison,
  requests: ReadonlyMap<Cell, CallRef[]>,
  notes: readonly string[],
  waiting: number,
) {
  return {
    ok: days > 0 && cells.every(({ isEqual }) => isEqual),
    provider,
    days,
    total: { provider_nano_usd: total.provider, ledger_nano_usd: total.ledger },
    lines: cells.map((cell) => ({
      day: toDay(cell.dayMs),
      credential: cell.account.name,
      model: cell.model,
      upstream_models: cell.upstreamModels,
      equal: cell.isEqual,
      only: cell.only,
      figures: Object.fromEntries(
        cell.figures.map(({ figure, provider, ledger, isEqual }) => [figure, { provider, ledger, equal: isEqual }]),
      ),
      cost_nano_usd: cell.nanoUsd && {
        ...{ provider: cell.nanoUsd.provider, ledger: cell.nanoUsd.ledger, equal: cell.nanoUsd.isEqual },
      },
      failed_calls: cell.failed,
      requests: (requests.get(cell) ?? []).map((ref) => ({
        ...{ id: ref.id, status: ref.status, http_status: ref.httpStatus, error_code: ref.errorCode },
        ...{ estimated: ref.estimated === 1, unpriced: ref.unpriced === 1, cost_nano_usd: ref.costNanoUsd },
      })),
    })),
    notes,
    pending_records: waiting,
  }
}

const HEADINGS = ['DAY', 'UPSTREAM', 'MODEL', '', 'PROVIDER', 'LEDGER', 'DIFFERENCE']
const MODEL_WIDTH = 26
/** Longer tables are truncated: no one reads them. */
const MAX_PRINTED = 500

export function toText(
  { cells, total, days }: Comparison,
  requests: ReadonlyMap<Cell, CallRef[]>,
  io: Context,
): string {
  const differing = cells.filter(({ isEqual }) => !isEqual)
  const scope = `${count(days, 'day')}, ${count(cells.length, 'line')}: ${toMoney(total.provider)} by the provider, ${toMoney(total.ledger)} in the ledger.`
  if (days === 0) return ''
  if (differing.length === 0) return `The bill matches the ledger: ${scope}\n`
  const rows: string[][] = []
  const notes: string[][] = []
  for (const cell of differing.slice(0, MAX_PRINTED)) {
    const lines = toLines(cell)
    const place = [
      toDay(cell.dayMs),
      toShort(cell.account.name),
      cell.model === null ? '(all)' : toShort(cell.model, MODEL_WIDTH),
    ]
    for (const [at, line] of lines.entries()) {
      rows.push([...(at === 0 ? place : ['', '', '']), ...line])
      notes.push(at === lines.length - 1 ? toNotes(cell, requests.get(cell) ?? []) : [])
    }
  }
  const rest = differing.length - MAX_PRINTED
  const more = rest > 0 ? `${count(rest, 'more line')} with --json.\n` : ''
  return toDescribedTable(HEADINGS, rows, notes, io.paint) + io.paint.aside(`${more}${scope}\n`)
}

const toMoney = (nanoUsd: bigint) => (nanoUsd < 0n ? `-${toRounded(-nanoUsd)}` : toRounded(nanoUsd))

function toLines({ figures, nanoUsd }: Cell): string[][] {
  const lines = figures.flatMap(({ figure, provider, ledger, isEqual }) =>
    isEqual ? [] : [[FIGURES[figure], ...[provider, ledger, provider - ledger].map((n) => n.toLocaleString('en-US'))]],
  )
  if (nanoUsd === null || nanoUsd.isEqual) return lines
  const { provider, ledger } = nanoUsd
  return [...lines, ['cost', ...[provider, ledger, provider - ledger].map(toMoney)]]
}

const MAX_SHOWN = 3

function toNotes({ only, failed }: Cell, refs: readonly CallRef[]): string[] {
  const side = only === null ? '' : `Only ${only === 'provider' ? 'the provider' : 'the ledger'} has this. `
  const calls = failed > 0 ? `${count(failed, 'call')} failed without usage. ` : ''
  const names = refs.slice(0, MAX_SHOWN).map(toRefText).join(', ')
  const more =
    refs.length > MAX_SHOWN
      ? `, and ${refs.length - MAX_SHOWN}${refs.length === MAX_NAMED ? '+' : ''} more (--json)`
      : ''
  return [`${side}${calls}${names === '' ? '' : `Requests: ${names}${more}.`}`.trim()]
}

function toRefText({ id, status, errorCode, estimated, unpriced }: CallRef): string {
  const what = [errorCode ?? (status === 'ok' ? '' : status), estimated ? 'estimated' : '', unpriced ? 'unpriced' : '']
  const why = what.filter((word) => word !== '').join(', ')
  return `${toShortId(id)}${why === '' ? '' : ` (${toPrintable(why)})`}`
}
