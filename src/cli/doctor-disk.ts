/** What `doctor` says of room: when the disk will be full, and whether the database holds room that only `compact` gives back. */

import { type Check, ok, problem, warning } from '../documents/checks.ts'
import type { DiskState } from '../documents/server.ts'
import { count } from '../domain/text.ts'
import { LEAST_FREE_BYTES } from '../server/disk.ts'
import type { Space } from '../store/ledger-store.ts'
import { toSize } from './doctor-check.ts'

/** What makes for quiet sleep. */
const COMFORT_BYTES = 32 * LEAST_FREE_BYTES
/** Of a database, what may be empty without a word. */
const EMPTY_PART = 0.25
const EMPTY_BYTES = 64 * 1024 ** 2

/** Says how full the disk is, and when it will be. */
export function checkDisk(disk: DiskState): Check {
  const { free_bytes: free, budget_bytes: budget, used_bytes: used } = disk
  const message = `${toSize(free)} are free on the disk of the data folder, which takes ${toSize(used)}${toBudget(budget)}${toGrowth(disk)}`
  if (free < LEAST_FREE_BYTES)
    return problem(
      'disk',
      `${message}: too little for the journal. Make room, or requests will be refused before long.`,
    )
  if (disk.state !== 'ok' || free < COMFORT_BYTES)
    return warning('disk', `${message}. Make room soon, ${budget === null ? '' : 'raise --disk, '}${ADVICE}`)
  return ok('disk', `${message}.`)
}

const ADVICE = 'or keep requests for a shorter time (serve --keep 30d); what is in backups/ may go, too.'

const toBudget = (bytes: number | null) => (bytes === null ? '' : ` of the ${toSize(bytes)} of --disk`)

function toGrowth({ growth_bytes_per_day: growth, days_left: days }: DiskState): string {
  if (growth === null) return ''
  if (days === null) return '; it did not grow within the last week'
  return `; it grows by ${toSize(growth)} a day: full in ${days < 1 ? 'less than a day' : count(days, 'day')}`
}

/** Says how much of the database's file is empty, where that is much and does not go by itself. */
export function checkSpace({ pages, freePages, pageBytes, canShrink }: Space, dataFolder: string): Check[] {
  const emptyBytes = freePages * pageBytes
  if (canShrink || emptyBytes < EMPTY_BYTES || freePages < pages * EMPTY_PART) return []
  const message = `${toSize(emptyBytes)} of the database's ${toSize(pages * pageBytes)} are empty: they are used again before it grows. To give them back to the disk, stop the server and run: tollgate compact --data ${dataFolder}`
  return [warning('empty_space', message)]
}
