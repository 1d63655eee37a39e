/** Reports of requests that were rejected before they had a row. Blocks its thread, like `usage.ts`. */
import { toErrorRow } from '../domain/error.ts'
import { isRefusalCode, REFUSAL_CODES, toRefusalMeaning } from '../domain/refusals.ts'
import type { RefusalDimension } from '../domain/report-filters.ts'
import { ServiceError } from '../domain/service-error.ts'
import { HOUR_MS, hourOf } from '../domain/time.ts'
import { type RefusalCell, type RefusalFilter, type RefusalReader, toGroupId } from '../store/report-store.ts'
import { createLimit, createNaming, type Names, toIds, type UsageGroup } from './report-filter.ts'

export interface RefusalOptions {
  /** One or two different ones. */
  by: readonly RefusalDimension[]
  /** Whole hours; null: includes the current hour. */
  sinceMs: number
  untilMs: number | null
  /** Keys and teams by name or ID (`keys/find.ts`), or `system`. */
  where: RefusalFilter
  /** Maximum groups, most rejected first. */
  limit: number
  limitMs: number
}

export interface RefusalRow {
  group: UsageGroup
  code: { name: string; meaning: string; status: number | null; clientCode: string | null } | null
  refused: number
  lastMs: number
}

export interface RefusalReport {
  /** By time if grouped by time, otherwise most rejected first. */
  rows: RefusalRow[]
  /** Rejected requests of the groups beyond `limit`. */
  rest: number
  total: number
  /** Actual period, in whole hours. */
  sinceMs: number
  untilMs: number
}

/** Throws errors of `toIds`, `invalid` for unknown codes, and `report_too_long` after `limitMs`. */
export async function reportRefusals(
  reader: RefusalReader,
  names: Names,
  { by, sinceMs, untilMs, where, limit, limitMs }: RefusalOptions,
  { nowMs, clock }: { nowMs: number; clock: () => number },
): Promise<RefusalReport> {
  const { key = [], team = [], code = [], ...own } = where
  const filter = { ...own, ...toIds({ key, team }, names, nowMs), code: code.flatMap(toCodes) }
  const span = { fromMs: hourOf(sinceMs), untilMs: hourOf((untilMs ?? nowMs + 1) + HOUR_MS - 1) }
  const check = createLimit(limitMs, clock)
  const groups = new Map<string, RefusalCell>()
  for await (const page of reader.pages({ span, by, where: filter })) {
    check()
    for (const cell of page) {
      const id = toGroupId(cell.of)
      const found = groups.get(id)
      if (!found) groups.set(id, { ...cell })
      else {
        found.refused += cell.refused
        found.lastMs = Math.max(found.lastMs, cell.lastMs)
      }
    }
  }
  const ranked = [...groups.values()].sort((a, b) => b.refused - a.refused || b.lastMs - a.lastMs)
  const sum = (cells: readonly RefusalCell[]) => cells.reduce((all, { refused }) => all + refused, 0)
  const toGroup = createRefusalNaming(by, names)
  const rows = ranked.slice(0, limit).map(({ of, refused, lastMs }) => ({ ...toGroup(of), refused, lastMs }))
  return {
    rows: rows.sort(({ group: a }, { group: b }) => (a.day ?? a.hour ?? 0) - (b.day ?? b.hour ?? 0)),
    ...{ rest: sum(ranked.slice(limit)), total: sum(ranked), sinceMs: span.fromMs, untilMs: span.untilMs },
  }
}

/** Accepts our codes, and codes sent to clients, which several of ours may share. */
function toCodes(text: string): readonly string[] {
  const codes = isRefusalCode(text) ? [text] : REFUSAL_CODES.filter((code) => toErrorRow(code).code === text)
  if (codes.length > 0) return codes
  const message = `Invalid code: must be one of ${REFUSAL_CODES.join(', ')}, or a code that clients get.`
  throw new ServiceError({ kind: 'invalid', field: 'code' }, message)
}

type Named = Exclude<RefusalDimension, 'code'>

function createRefusalNaming(by: readonly RefusalDimension[], names: Names) {
  const at = by.indexOf('code')
  const toGroup = createNaming(
    by.filter((dimension): dimension is Named => dimension !== 'code'),
    names,
  )
  return (of: RefusalCell['of']): Pick<RefusalRow, 'group' | 'code'> => ({
    group: toGroup(of.filter((_, i) => i !== at)),
    code: at < 0 ? null : toCode(String(of[at])),
  })
}

function toCode(name: string): RefusalRow['code'] {
  const { status = null, code = null } = isRefusalCode(name) ? toErrorRow(name) : {}
  return { name, meaning: toRefusalMeaning(name), status, clientCode: code }
}
