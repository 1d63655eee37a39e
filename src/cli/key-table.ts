/** The table of `keys list`: one line a key that fits a terminal, and beneath it what the key is held to. Pure. */

import { toShortId } from '../domain/id.ts'
import { toDay } from '../domain/time.ts'
import type { ListedKey } from '../keys/service.ts'
import type { Standing } from '../keys/standing.ts'
import { toBudgetCell, toLastUseText, toSpentText } from './budget.ts'
import { toDescribedTable, toPrintable, toShort } from './io.ts'
import { toRules } from './shared-text.ts'
import type { Paint } from './terminal.ts'

const HEADINGS = ['ID', 'NAME', 'KEY', 'UNTIL', 'BUDGET']

/** @param names of those whose keys these may be, by their ids. */
export function toKeyTable(
  all: readonly { key: ListedKey; standing: Standing }[],
  names: ReadonlyMap<string, string>,
  nowMs: number,
  paint: Paint,
): string {
  const rows = all.map(({ key, standing }) => toCells(key, standing, nowMs))
  const notes = all.map(({ key, standing }) => [toKeyRules(key, names), toUse(standing)])
  return toDescribedTable(...withoutEmpty(HEADINGS, rows), notes, paint)
}

function toCells(key: ListedKey, standing: Standing, nowMs: number): string[] {
  const end = key.expiresMs === null ? '-' : toDay(key.expiresMs)
  return [
    toShortId(key.id),
    toShort(key.name),
    key.secrets
      .filter(({ expiresMs }) => expiresMs === null || expiresMs > nowMs)
      .map(({ lastFour }) => `…${lastFour}`)
      .join(' ') || '-',
    key.status === 'active' ? end : key.status,
    toBudgetCell(standing),
  ]
}

const toKeyRules = (key: ListedKey, names: ReadonlyMap<string, string>) =>
  toRules(
    key,
    key.allowedIps.length > 0 ? `from ${key.allowedIps.join(', ')}` : '',
    key.team === null ? '' : `team ${toPrintable(key.team)}`,
    key.ownerId === null ? '' : `of ${toPrintable(names.get(key.ownerId) ?? toShortId(key.ownerId))}`,
  )

/** Such as `$3.10 this month, $45.10 in total; last used 2026-11-21 12:30 for openai/gpt-4o`. */
const toUse = (standing: Standing) =>
  standing.lastUse === null && standing.totalNanoUsd === 0
    ? 'never used'
    : `${toSpentText(standing)}; last used ${toLastUseText(standing)}`

/** Leaves out the columns in which no key has anything. */
function withoutEmpty(headings: string[], rows: string[][]): [string[], string[][]] {
  const isUsed = headings.map((_, column) => rows.some((row) => row[column] !== '-'))
  const keep = (line: string[]) => line.filter((_, column) => isUsed[column])
  return [keep(headings), rows.map(keep)]
}
