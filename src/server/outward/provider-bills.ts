/** Fetches a provider's usage and costs with an administrator's credential, which is sent to that provider only. */
import { asObject, type JsonObject } from '../../domain/json.ts'
import { ServiceError } from '../../domain/service-error.ts'
import { readUpTo } from '../../domain/text.ts'
import { type BillPart, readPages, unusable } from '../../ledger/reconcile/bill.ts'
import type { Provider } from '../../ledger/reconcile/providers.ts'
import { toReason } from '../../upstreams/probe.ts'

export interface FetchedPage {
  part: BillPart
  page: JsonObject
  /** For messages. */
  source: string
}

export interface BillSource {
  credential: string
  /** Without a trailing slash. */
  baseUrl: string
  fromMs: number
  untilMs: number
}

const PAGE_MS = 60_000
const PAGE_BYTES = 64 * 1024 * 1024
const MAX_PAGES = 500

/** Throws `bill_unusable`. */
export async function* fetchBill(provider: Provider, source: BillSource): AsyncGenerator<FetchedPage> {
  const { credential, baseUrl, fromMs, untilMs } = source
  // The system's error would include the credential.
  if (!/^[\x21-\x7e]+$/.test(credential)) throw unusable(`${provider.variable} must be a key, on one line.`)
  for (const { part, path, query } of provider.requests(fromMs, untilMs)) {
    const seen = new Set<string>()
    for (let next: string | null = ''; next !== null; ) {
      if (next !== '') query.set('page', next)
      const page = await fetchPage(provider, `${baseUrl}${path}`, query, credential)
      yield { part, page, source: path }
      const { has_more: hasMore, next_page: token } = page
      next = hasMore === true && typeof token === 'string' && token !== '' ? token : null
      if (hasMore === true && (next === null || seen.has(next) || seen.size >= MAX_PAGES))
        throw unusable(`${provider.title} sent pages without an end for ${path}. Ask for fewer days.`)
      if (next !== null) seen.add(next)
    }
  }
}

async function fetchPage(
  { title, variable, headers }: Provider,
  url: string,
  query: URLSearchParams,
  credential: string,
): Promise<JsonObject> {
  const signal = AbortSignal.timeout(PAGE_MS)
  const text = await read(title, url, async () => {
    // A redirect would send the credential elsewhere.
    const response = await fetch(query.size > 0 ? `${url}?${query}` : url, {
      headers: { ...headers(credential), accept: 'application/json', 'user-agent': 'tollgate' },
      redirect: 'manual',
      signal,
    })
    const { status } = response
    const { text, isWhole } = await readUpTo(response.body, status === 200 ? PAGE_BYTES : 4_096)
    if (status === 401 || status === 403)
      throw unusable(
        `${title} rejected the credential in ${variable} (${status}). It must be a key that may read usage and costs, not one for inference.`,
      )
    if (status !== 200)
      throw unusable(`${title} returned ${status} for ${url}. Try again, or download the data and pass the file.`)
    if (!isWhole)
      throw unusable(`${title} sent more than ${PAGE_BYTES / 1_048_576} MiB for ${url}. Ask for fewer days.`)
    return text
  })
  const [page, ...more] = readPages(text, url)
  if (asObject(page) && page && more.length === 0) return page
  throw unusable(`${title} sent something other than a page for ${url}.`)
}

async function read(title: string, url: string, ask: () => Promise<string>): Promise<string> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof ServiceError) throw error
    throw unusable(`Can't read ${title}'s ${url}: ${toReason(error)}.`)
  }
}
