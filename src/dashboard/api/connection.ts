/**
 * Tracks whether the server responds, and has this page's version. During an outage, a single probe checks for the
 * whole page.
 */
import { signal } from '@preact/signals'

export const isConnected = signal(true)

/** Increments when the server or the session is back: then open data reloads, and streams reopen. */
export const returns = signal(0)

/** True if the server has pages of another version, so that parts of this one may no longer load. */
export const isOutdated = signal(false)

const PROBED = '/admin/api/session'
const FIRST_MS = 1_000
const MAX_MS = 15_000
const PROBE_MS = 10_000

/** A connection that lasted this long starts again with short pauses. */
const STABLE_MS = 30_000

let timer: ReturnType<typeof setTimeout> | undefined
let failures = 0
let connectedMs = 0
let isProbing = false

/** Proxies answer for a server that is down, with a page of their own. */
const isFromProxy = (status: number, type: string | null): boolean =>
  [502, 503, 504].includes(status) && !type?.startsWith('application/json')

const isOurs = ({ status, headers }: Response): boolean => !isFromProxy(status, headers.get('content-type'))

/**
 * Only a probe ends an outage: if one URL keeps failing while others respond, reloading at each response would never
 * end.
 */
export function noteAnswer(response: Response): void {
  if (!isOurs(response)) noteLost()
}

export function noteLost(): void {
  if (!isConnected.value) return
  isConnected.value = false
  if (Date.now() - connectedMs > STABLE_MS) failures = 0
  schedule()
}

function noteBack(): void {
  clearTimeout(timer)
  connectedMs = Date.now()
  isConnected.value = true
  returns.value++
  void lookForUpdate()
}

/** Random, so that a team's pages don't all probe at once. */
export const toPauseMs = (failed: number, random: number): number =>
  Math.min(MAX_MS, FIRST_MS * 2 ** Math.min(failed, 10)) * (0.5 + random / 2)

function schedule(): void {
  clearTimeout(timer)
  timer = setTimeout(probe, toPauseMs(failures++, Math.random()))
}

async function probe(): Promise<void> {
  // `visibilitychange` probes at once.
  if (isProbing || isConnected.value || document.hidden) return
  isProbing = true
  try {
    if (isOurs(await fetch(PROBED, { cache: 'no-store', signal: AbortSignal.timeout(PROBE_MS) }))) noteBack()
  } catch {
    // The next probe follows.
  }
  isProbing = false
  if (!isConnected.value) schedule()
}

const LOOK_MS = 10 * 60_000
let lookedMs = Date.now()

/** Assets are named by their content. */
const toAssets = (page: Document) =>
  [...page.querySelectorAll('script[src], link[rel="stylesheet"]')].map(
    (one) => one.getAttribute('src') ?? one.getAttribute('href'),
  )

export async function lookForUpdate(): Promise<void> {
  lookedMs = Date.now()
  const response = await fetch('/admin', { cache: 'no-store' }).catch(() => null)
  if (!response?.ok) return
  const page = new DOMParser().parseFromString(await response.text(), 'text/html')
  // A proxy's login page isn't a version of ours.
  if (page.getElementById('app') === null) return
  isOutdated.value = toAssets(page).join() !== toAssets(document).join()
}

addEventListener('online', probe)
addEventListener('offline', noteLost)
document.addEventListener('visibilitychange', () => {
  if (document.hidden) return
  void probe()
  if (isConnected.value && Date.now() - lookedMs > LOOK_MS) void lookForUpdate()
})
