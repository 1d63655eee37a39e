/** Puts cells of usage into groups, in bounded memory. Pure but for the ranking that a store lends. */
import { toGroupId, type UsageCell, type UsageReader } from '../store/usage-store.ts'
import { addSums, createSums, type Sums } from './usage-sums.ts'

/** Groups that are kept in memory, at least. */
const FEW = 10_000

export interface Gathered {
  groups: Map<string, { of: UsageCell['of']; sums: Sums }>
  /** What was not kept. */
  others: Sums
  /** Of all groups, those that were not kept included. */
  count: number
}

/**
 * Adds up all pages, in groups. How many groups there are may be up to clients, who name users as they like: where there are more
 * than fit, they are ranked first, and only the dearest told apart.
 *
 * @param pages begins to read anew each time.
 */
export function addUp(
  { counts, rank }: UsageReader,
  pages: () => Iterable<readonly UsageCell[]>,
  limit: number,
): Gathered {
  const most = Math.max(limit, FEW)
  const all = gather(counts, pages(), (known) => (known < most ? 'keep' : 'stop'))
  if (all !== null) return all
  using ranking = rank()
  for (const page of pages()) ranking.add(page)
  const wanted = new Set(ranking.top(limit))
  const dearest = gather(counts, pages(), (_, id) => (wanted.has(id) ? 'keep' : 'leave'))
  return { groups: dearest?.groups ?? new Map(), others: dearest?.others ?? createSums(counts), count: ranking.count() }
}

/** @param place what becomes of a new group, where so many are known: `leave` leaves it to the others, `stop` gives all up. */
function gather(
  counts: readonly unknown[],
  pages: Iterable<readonly UsageCell[]>,
  place: (known: number, id: string) => 'keep' | 'leave' | 'stop',
): Gathered | null {
  const groups: Gathered['groups'] = new Map()
  const others = createSums(counts)
  for (const page of pages) {
    for (const cell of page) {
      const id = toGroupId(cell.of)
      const found = groups.get(id)
      const where = found ? 'keep' : place(groups.size, id)
      if (where === 'stop') return null
      const sums = found?.sums ?? (where === 'keep' ? createSums(counts) : others)
      addSums(sums, cell)
      if (!found && where === 'keep') groups.set(id, { of: cell.of, sums })
    }
  }
  return { groups, others, count: groups.size }
}
