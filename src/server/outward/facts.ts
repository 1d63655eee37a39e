import { unusable } from '../../catalog/facts-file.ts'
import { ServiceError } from '../../domain/service-error.ts'
import type { Environment } from '../../domain/snapshot.ts'
import { readUpTo } from '../../domain/text.ts'
import { toReason } from '../../upstreams/probe.ts'

const PUBLISHED = 'https://models.dev/api.json'

export const toFactsSource = ({ TOLLGATE_FACTS: said }: Environment): string => said || PUBLISHED

/** For a server: concurrent callers share a download. */
export function createFacts(environment: Environment) {
  const source = toFactsSource(environment)
  let reading: Promise<string> | null = null
  return {
    source,
    read(): Promise<string> {
      reading ??= fetchFacts(source, { bytes: SERVER_BYTES }).finally(() => {
        reading = null
      })
      return reading
    },
  }
}

const SERVER_BYTES = 16 * 1024 * 1024

export interface FactsLimits {
  ms: number
  bytes: number
}

/** The published list has about 3 MB. */
const LIMITS: FactsLimits = { ms: 60_000, bytes: 64 * 1024 * 1024 }

const ELSE = 'To use a file you downloaded: tollgate catalog refresh FILE'

/** Throws `facts_unusable`. */
export async function fetchFacts(url: string, limits: Partial<FactsLimits> = {}): Promise<string> {
  const { ms, bytes: most } = { ...LIMITS, ...limits }
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw unusable(`'${url.slice(0, 100)}' must be a URL that begins with https://.`)
  const signal = AbortSignal.timeout(ms)
  try {
    const response = await fetch(url, {
      headers: { accept: 'application/json', 'user-agent': 'tollgate' },
      redirect: 'manual',
      signal,
    })
    const { status } = response
    if (status >= 300 && status < 400)
      throw unusable(
        `${url} redirects to ${(response.headers.get('location') ?? 'nowhere').slice(0, 200)}. If that is right, pass it with --from.`,
      )
    if (status !== 200) throw unusable(`${url} returned ${status}. ${ELSE}`)
    const { text, isWhole } = await readUpTo(response.body, most)
    if (isWhole) return text
    throw unusable(
      `${url} sent more than ${Math.round(most / 1_048_576)} MiB, too much for a list of public facts. ${ELSE}`,
    )
  } catch (error) {
    if (signal.aborted) throw unusable(`Timed out reading ${url} after ${ms / 1_000} s. ${ELSE}`)
    if (error instanceof ServiceError) throw error
    throw unusable(`Can't read ${url}: ${toReason(error)}. ${ELSE}`)
  }
}
