/** API data cached by name: reopened pages show it while it reloads, and parts of a page share one request. */
import { effect, type Signal, signal, untracked } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { isConnected, returns } from './connection.ts'
import { isPassing, Refusal } from './refusal.ts'
import { hasEnded, session } from './session.ts'

interface Loaded<T> {
  /** Null until the first response. */
  data: T | null
  /** Of the latest load; older data stays. */
  problem: Refusal | null
  reload(): Promise<void>
}

interface Entry {
  data: Signal<unknown>
  problem: Signal<Refusal | null>
  load: () => Promise<unknown>
  /** Number of the latest request; responses to older ones are dropped if there is any data. */
  asked: number
  isLoading: boolean
  /** True once its user has signed out. */
  isDropped: boolean
  /** 0 before the first response. */
  answeredMs: number
  /** Number of mounted components that use it. */
  shown: number
}

const MAX_KEPT = 60
/** Data this recent is not reloaded on mount. */
const NEW_MS = 1_000

/** Least recently used first. */
const kept = new Map<string, Entry>()

function entryOf(name: string): Entry {
  const entry = kept.get(name) ?? {
    ...{ data: signal(null), problem: signal(null), load: async () => null },
    ...{ asked: 0, isLoading: false, isDropped: false, answeredMs: 0, shown: 0 },
  }
  kept.delete(name)
  kept.set(name, entry)
  if (kept.size <= MAX_KEPT) return entry
  for (const [oldest, { shown }] of kept) {
    if (shown > 0) continue
    kept.delete(oldest)
    break
  }
  return entry
}

async function reload(entry: Entry): Promise<void> {
  const asked = ++entry.asked
  entry.isLoading = true
  try {
    const data = await entry.load()
    // Without data, an older response is better than waiting.
    if (entry.isDropped || (asked !== entry.asked && entry.data.value !== null)) return
    entry.data.value = data
    entry.problem.value = null
  } catch (error) {
    if (entry.isDropped || asked !== entry.asked) return
    const problem = toRefusal(error)
    // The page shows the outage once, keeps its data, and reloads afterwards.
    entry.problem.value = isPassing(problem) && entry.data.value !== null ? null : problem
  }
  entry.isLoading = false
  entry.answeredMs = Date.now()
}

export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  console.error(error)
  return new Refusal('Something went wrong on this page. The browser console has details.', 'failed')
}

/**
 * Loads on mount and, with `everyMs`, repeatedly while the page is visible.
 *
 * @param name cache key with filters: `keys`, `requests?key=ann`
 */
export function useLoaded<T>(name: string, load: () => Promise<T>, { everyMs }: { everyMs?: number } = {}): Loaded<T> {
  const entry = entryOf(name)
  const latest = useRef(load)
  latest.current = load
  // Before the effect: an event of the page may reload it earlier.
  entry.load = () => latest.current()
  useEffect(() => {
    entry.shown++
    const refresh = () => {
      if (!isConnected.value || hasEnded.value) return
      // Don't restart a slow request.
      if (!entry.isLoading && Date.now() - entry.answeredMs >= NEW_MS) void reload(entry)
    }
    refresh()
    const stop = everyMs === undefined ? () => {} : whileVisible(refresh, everyMs)
    return () => {
      entry.shown--
      stop()
    }
  }, [entry, everyMs])
  return { data: entry.data.value as T | null, problem: entry.problem.value, reload: () => reload(entry) }
}

/** The latest non-null data, so that old data stays visible while new filters load. */
export function useNewest<T>(data: T | null): T | null {
  const newest = useRef<T | null>(null)
  if (data !== null) newest.current = data
  return newest.current
}

/** Repeats while the page is visible, and at once when it becomes visible. Returns the stop function. */
function whileVisible(run: () => void, everyMs: number): () => void {
  const runVisibly = () => {
    if (!document.hidden) run()
  }
  const timer = setInterval(runVisibly, everyMs)
  document.addEventListener('visibilitychange', runVisibly)
  return () => {
    clearInterval(timer)
    document.removeEventListener('visibilitychange', runVisibly)
  }
}

/** Reloads mounted entries with this name, or below it (`/`, `?`), and drops the others. */
export async function reloadAll(name: string): Promise<void> {
  const concerned = [...kept].filter(
    ([known]) => known === name || known.startsWith(`${name}/`) || known.startsWith(`${name}?`),
  )
  for (const [known, { shown }] of concerned) if (shown === 0) kept.delete(known)
  await Promise.all(concerned.map(([, entry]) => entry.shown > 0 && reload(entry)))
}

/** Awaits a change, reloads the named data, and returns the response to the change. */
export async function change<T>(asked: Promise<T>, ...names: readonly string[]): Promise<T> {
  const answer = await asked
  await Promise.all(names.map(reloadAll))
  return answer
}

/** After a restart or a new sign-in, open data may be old. */
effect(() => {
  if (returns.value === 0) return
  untracked(() => {
    for (const entry of kept.values()) if (entry.shown > 0) void reload(entry)
  })
})

/** The next user must not see this user's data. */
effect(() => {
  if (session.value.state !== 'out') return
  for (const entry of kept.values()) entry.isDropped = true
  kept.clear()
})
