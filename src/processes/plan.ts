/**
 * Which models are in memory together: whether one more may be loaded now, what has to go for it, or what it waits for. What was
 * used longest ago goes first, and nothing that is answering ever goes. Those that wait for a loaded model go before those that
 * wait for another one in its place, but only for so long; and each stays for a while once it is loaded, so that two models that
 * are asked for in turn do not spend all time on loading. Called by `fleet.ts` whenever something has changed. Pure.
 */

/** A model that takes memory now. Times are of a clock that never steps, ms. */
export interface Resident {
  id: string
  needBytes: number
  /** Whether it stays for as long as the server runs. */
  isPinned: boolean
  phase: 'loading' | 'ready' | 'stopping'
  answering: number
  waiting: number
  lastUsedMs: number
  /** Until when it stays, whoever waits for another one. */
  keptUntilMs: number
}

/** A model that somebody waits for and that is not loaded. */
export interface Wanted {
  id: string
  /** Null where nobody knows: it then has all that the pinned ones leave. */
  needBytes: number | null
  /** Since when somebody waits for it. */
  sinceMs: number
}

export interface Machine {
  /** What all models together may take; null = all that are asked for. */
  budgetBytes: number | null
  nowMs: number
  /** How long those that wait for a loaded model go first. */
  patienceMs: number
}

/**
 * `evict`: these are to be stopped first. `wait`: something goes by itself; look again when that is so, and at `atMs`. `hold`:
 * those are not to begin another answer until then. `never`: it needs more than `mostBytes`, all that it could ever have.
 */
export type LoadStep =
  | { kind: 'start' }
  | { kind: 'evict'; ids: string[] }
  | { kind: 'wait'; atMs: number | null; hold: string[] }
  | { kind: 'never'; mostBytes: number }

export function planLoad(wanted: Wanted, residents: readonly Resident[], machine: Machine): LoadStep {
  const { budgetBytes, nowMs, patienceMs } = machine
  if (budgetBytes === null) return { kind: 'start' }
  const mostBytes = budgetBytes - sum(residents.filter(({ isPinned }) => isPinned))
  const needBytes = wanted.needBytes ?? Math.max(1, mostBytes)
  if (needBytes > mostBytes) return { kind: 'never', mostBytes }
  const freeBytes = budgetBytes - sum(residents)
  if (needBytes <= freeBytes) return { kind: 'start' }
  const leaving = residents.filter(({ phase }) => phase === 'stopping')
  const lackBytes = needBytes - freeBytes - sum(leaving)
  if (lackBytes <= 0) return { kind: 'wait', atMs: null, hold: [] }
  const impatientMs = wanted.sinceMs + patienceMs
  const isImpatient = nowMs >= impatientMs
  const loaded = residents
    .filter(({ phase, isPinned }) => phase === 'ready' && !isPinned)
    .toSorted((a, b) => a.lastUsedMs - b.lastUsedMs)
  const free = loaded.filter((one) => isFree(one, nowMs, isImpatient))
  const now = choose(free, lackBytes)
  if (now) return { kind: 'evict', ids: now }
  const soon = loaded.flatMap(({ keptUntilMs }) => (keptUntilMs > nowMs ? keptUntilMs : []))
  const times = isImpatient ? soon : [...soon, impatientMs]
  const atMs = times.length === 0 ? null : Math.min(...times)
  // What is still kept goes on until then: it was loaded for those who wait for it.
  const held = loaded.filter(({ keptUntilMs }) => keptUntilMs <= nowMs)
  return { kind: 'wait', atMs, hold: isImpatient ? (choose(held, lackBytes) ?? []) : [] }
}

const isFree = ({ answering, waiting, keptUntilMs }: Resident, nowMs: number, isImpatient: boolean) =>
  answering === 0 && nowMs >= keptUntilMs && (waiting === 0 || isImpatient)

const sum = (residents: readonly Resident[]) => residents.reduce((all, { needBytes }) => all + needBytes, 0)

/** The first ones that together have so much, and none that is not needed for it; null where all do not. */
function choose(inOrder: readonly Resident[], bytes: number): string[] | null {
  const chosen: Resident[] = []
  for (const one of inOrder) {
    if (sum(chosen) >= bytes) break
    chosen.push(one)
  }
  if (sum(chosen) < bytes) return null
  // An early small one may be of no use beside a later large one.
  const needed = chosen.filter((one, index) => sum(chosen) - one.needBytes < bytes || index === chosen.length - 1)
  return (sum(needed) >= bytes ? needed : chosen).map(({ id }) => id)
}
