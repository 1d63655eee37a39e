/** What the overview's lists of what costs most show, out of reports of usage. Pure. */
import type { Range } from './range.ts'
import { toIndex, toTotals, type UsageFields } from './series.ts'

export type List = 'key' | 'model' | 'team' | 'upstream' | 'user'

export interface Share {
  /** What it is asked for by; null where it is nobody's. */
  id: string | null
  name: string
  costNanoUsd: number
  isEstimated: boolean
  requests: number
  /** Of the cost of all; of their requests where nothing cost anything. */
  share: number
}

/** The first few of a report by one thing, and what share of the whole each is. */
export function toShares(by: List, { usage, total }: { usage: readonly UsageFields[]; total: UsageFields }): Share[] {
  const whole = toTotals(total)
  return usage.map((row) => {
    const { costNanoUsd, isEstimated, requests } = toTotals(row)
    const id = toId(by, row)
    return {
      ...{ id: id === null ? null : String(id), name: String(row[by] ?? id ?? `without a ${by}`) },
      ...{ costNanoUsd, isEstimated, requests },
      share: whole.costNanoUsd > 0 ? costNanoUsd / whole.costNanoUsd : requests / (whole.requests || 1),
    }
  })
}

const toId = (by: List, row: UsageFields) => row[`${by}_id`] ?? row[by] ?? null

/** What each of a list was asked or cost in each column: requests where nothing cost anything. By id. @param rows by time and by it. */
export function toLines(by: List, rows: readonly UsageFields[], range: Range): Map<string, number[]> {
  const isFree = rows.every((row) => Number(row.cost_nano_usd) === 0)
  const lines = new Map<string, number[]>()
  for (const row of rows) {
    const at = toIndex(range, row)
    if (at < 0) continue
    const line = lines.getOrInsertComputed(String(toId(by, row)), () => range.columns.map(() => 0))
    line[at] = (line[at] ?? 0) + Number(isFree ? row.requests : row.cost_nano_usd)
  }
  return lines
}
