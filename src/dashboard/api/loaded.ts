/**
 * What a page reads from the API: kept by name, so that a page that is opened again shows what it had while it asks anew, and two parts
 * of a page ask once.
 */
import { type Signal, signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { Refusal } from './refusal.ts'

export interface Loaded<T> {
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
  asked: number
}

/** More are old filters of lists. */
const MOST_KEPT = 60

const kept = new Map<string, Entry>()

function entryOf(name: string): Entry {
  const found = kept.get(name)
  if (found) return found
  const entry: Entry = { data: signal(null), problem: signal(null), load: async () => null, asked: 0 }
  kept.set(name, entry)
  const [oldest] = kept.keys()
  if (kept.size > MOST_KEPT && oldest !== undefined) kept.delete(oldest)
  return entry
}

async function reload(entry: Entry): Promise<void> {
  const asked = ++entry.asked
  try {
    const data = await entry.load()
    if (asked !== entry.asked) return
    entry.data.value = data
    entry.problem.value = null
  } catch (error) {
    if (asked === entry.asked) entry.problem.value = toRefusal(error)
  }
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
    void reload(entry)
    if (everyMs === undefined) return
    const timer = setInterval(() => {
      if (!document.hidden) void reload(entry)
    }, everyMs)
    return () => clearInterval(timer)
  }, [entry, everyMs])
  return { data: entry.data.value as T | null, problem: entry.problem.value, reload: () => reload(entry) }
}

/** Reads again, after a change, what is open under this name, or under one that begins with it and `/` or `?`. */
export function reloadAll(name: string): Promise<unknown> {
  const concerned = [...kept].filter(
    ([known]) => known === name || known.startsWith(`${name}/`) || known.startsWith(`${name}?`),
  )
  return Promise.all(concerned.map(([, entry]) => reload(entry)))
}

/** At sign-out: nothing of one person is shown to the next. */
export function forgetAll(): void {
  for (const entry of kept.values()) {
    entry.asked++
    entry.data.value = null
    entry.problem.value = null
  }
  kept.clear()
}
