/**
 * What a page reads from the API: kept by name, so that a page that is opened again shows what it had while it asks anew, and two parts
 * of a page ask once.
 */
import { effect, type Signal, signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { Refusal } from './refusal.ts'
import { session } from './session.ts'

interface Loaded<T> {
  /** The newest; null before the first answer. */
  data: T | null
  /** Why the last time failed. What was read before stays. */
  problem: Refusal | null
  reload(): Promise<void>
}

interface Entry {
  data: Signal<unknown>
  problem: Signal<Refusal | null>
  load: () => Promise<unknown>
  /** How often it was asked for: only the newest answer counts. */
  asked: number
  isUnderWay: boolean
  /** When it was last answered; 0 before. */
  answeredMs: number
  /** How many parts of the page show it. */
  shown: number
}

/** More are old filters of lists. */
const MAX_KEPT = 60
/** What is as new as this is not asked for again by a part of a page that opens. */
const NEW_MS = 1_000

/** The one that was looked at last comes last. */
const kept = new Map<string, Entry>()

function entryOf(name: string): Entry {
  const entry = kept.get(name) ?? {
    ...{ data: signal(null), problem: signal(null), load: async () => null },
    ...{ asked: 0, isUnderWay: false, answeredMs: 0, shown: 0 },
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
  entry.isUnderWay = true
  try {
    const data = await entry.load()
    if (asked !== entry.asked) return
    entry.data.value = data
    entry.problem.value = null
  } catch (error) {
    if (asked !== entry.asked) return
    entry.problem.value = toRefusal(error)
  }
  entry.isUnderWay = false
  entry.answeredMs = Date.now()
}

/** Whatever was thrown, as something to show. */
export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  console.error(error)
  return new Refusal('This page has a mistake: the console of the browser has its cause.', 'failed')
}

/**
 * Reads something when the page opens and, where it says so, again and again while somebody looks.
 *
 * @param name what it is, and with which filters: `keys`, `requests?key=ann`
 */
export function useLoaded<T>(name: string, load: () => Promise<T>, { everyMs }: { everyMs?: number } = {}): Loaded<T> {
  const entry = entryOf(name)
  const latest = useRef(load)
  latest.current = load
  useEffect(() => {
    entry.load = () => latest.current()
    entry.shown++
    const refresh = () => {
      // One that takes its time is waited for, and not asked for anew.
      if (!entry.isUnderWay && Date.now() - entry.answeredMs >= NEW_MS) void reload(entry)
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

/** What was there stays until what was asked for is: the newest that there was; null before the first. */
export function useNewest<T>(data: T | null): T | null {
  const newest = useRef<T | null>(null)
  if (data !== null) newest.current = data
  return newest.current
}

/** Runs something again and again, and at once when somebody comes back to the page. Returns what ends that. */
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

/** After a change: reads again what is shown under this name, or under one that begins with it and `/` or `?`, and forgets the rest. */
export async function reloadAll(name: string): Promise<void> {
  const concerned = [...kept].filter(
    ([known]) => known === name || known.startsWith(`${name}/`) || known.startsWith(`${name}?`),
  )
  for (const [known, { shown }] of concerned) if (shown === 0) kept.delete(known)
  await Promise.all(concerned.map(([, entry]) => entry.shown > 0 && reload(entry)))
}

/** Waits for a change, then reads again what it concerns. Returns what the change has answered. */
export async function change<T>(asked: Promise<T>, ...names: readonly string[]): Promise<T> {
  const answer = await asked
  await Promise.all(names.map(reloadAll))
  return answer
}

/** Nothing of one person is shown to the next. */
effect(() => {
  if (session.value.state !== 'out') return
  for (const entry of kept.values()) entry.asked++
  kept.clear()
})
