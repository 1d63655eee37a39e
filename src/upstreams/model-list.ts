/** Lists a provider's models. Limits size, time, and format, follows no redirects, and says in every error what to do. */

import { UpstreamError } from '../domain/error.ts'
import { tryJson } from '../domain/json.ts'
import type { ListedModel } from '../domain/model-server.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Upstream } from '../domain/snapshot.ts'
import { readUpTo } from '../domain/text.ts'
import { toPublic } from './credential-scrubbing.ts'
import type { WireFormat } from './dialects/dialect.ts'
import { toOwnHeaders, toReason, toRoot } from './probe.ts'

export interface ListLimits {
  ms: number
  bytes: number
  pages: number
  models: number
}

/** The longest known list, OpenRouter's, has some 400 models and 600 kB. */
const LIMITS: ListLimits = { ms: 30_000, bytes: 16 * 1024 * 1024, pages: 50, models: 20_000 }
/** Lower limits for local discovery, which calls any server at a usual port. */
const LOCAL: Partial<ListLimits> = { bytes: 4 * 1024 * 1024, models: 1_000 }

export type Send = (url: string, init: RequestInit) => Promise<Response>

export interface ListOptions extends Partial<ListLimits> {
  send?: Send
}

/** Throws `list_failed`: the upstream rejected the credential, has no list, or sent something else. */
export async function askModels(
  dialect: Pick<WireFormat, 'headers' | 'models'>,
  upstream: Upstream,
  { send = fetch, ...limits }: ListOptions = {},
): Promise<ListedModel[]> {
  const all = { ...LIMITS, ...(upstream.local ? LOCAL : {}), ...limits }
  const { ms, bytes, pages, models: most } = all
  const asking = { upstream, dialect, signal: AbortSignal.timeout(ms), bytes, ms, send }
  let bytesLeft = bytes
  const models: ListedModel[] = []
  const seen = new Set<string>()
  let after: string | null = null
  for (;;) {
    const url = `${upstream.baseUrl}${dialect.models.path(upstream, after)}`
    const text = await readPage(url, asking, bytesLeft)
    bytesLeft -= Buffer.byteLength(text)
    const page = dialect.models.read(toJson(url, text))
    if (page === null) throw failed('answer', `${url} returned JSON that is not a model list. ${ADDRESS}`)
    for (const model of page.models) models.push(model)
    if (models.length > most)
      throw failed('answer', `${url} lists more than ${most} models, which is too many. ${NAMED}`)
    if (page.next === null) return askFurther(models, asking)
    if (page.next.length > MAX_NEXT) throw failed('answer', `${url} returned an overlong page token. ${NAMED}`)
    if (seen.has(page.next) || seen.size + 1 >= pages)
      throw failed('answer', `The model list at ${url} has more than ${seen.size + 1} pages. ${NAMED}`)
    seen.add(page.next)
    after = page.next
  }
}

/** Limit for a page token, which appears in URLs and messages. */
const MAX_NEXT = 1_000

/** Maximum number of models queried one by one; nobody has more on one machine. */
const MAX_ASKED = 100
const AT_ONCE = 4
/** Limit per queried model. Ollama sends about ten kilobytes, including the license. */
const FURTHER_BYTES = 512 * 1024

/** Adds further facts about each model, if the upstream has them and time allows. */
async function askFurther(
  models: ListedModel[],
  asking: Asking & { dialect: Pick<WireFormat, 'headers' | 'models'> },
): Promise<ListedModel[]> {
  const { upstream, dialect, signal } = asking
  const questions = dialect.models.further?.(models.slice(0, MAX_ASKED), upstream) ?? []
  const answers: unknown[] = []
  const left = [...questions.entries()]
  const worker = async () => {
    for (let next = left.shift(); next !== undefined && !signal.aborted; next = left.shift()) {
      const [at, { at: place, path, body }] = next
      const url = `${place === 'root' ? toRoot(upstream) : upstream.baseUrl}${path}`
      // The list is useful without them.
      answers[at] = await readPage(url, asking, FURTHER_BYTES, body).then(tryJson, () => null)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return questions.reduce(
    (known, { of, read }, at) =>
      answers[at] == null
        ? known
        : known.map((each) => (of === null || of === each.id ? read(answers[at], each) : each)),
    models,
  )
}

const ADDRESS = 'Check its base URL, which usually ends in /v1.'
const NAMED = 'Or name its models yourself.'

type Why = 'credential' | 'none' | 'answer' | 'unreachable'

const failed = (why: Why, message: string) => new ServiceError({ kind: 'list_failed', why }, message)

interface Asking {
  upstream: Upstream
  dialect: Pick<WireFormat, 'headers'>
  signal: AbortSignal
  bytes: number
  ms: number
  send: Send
}

async function readPage(
  url: string,
  { upstream, dialect, signal, bytes, ms, send }: Asking,
  most: number,
  body?: object,
): Promise<string> {
  try {
    // A redirect must not receive the credential.
    const response = await send(url, {
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        accept: 'application/json',
        'user-agent': 'tollgate',
        ...toOwnHeaders(upstream),
        ...dialect.headers(upstream),
      },
      redirect: 'manual',
      signal,
    })
    if (response.status === 200) return await readBounded(url, response, most, bytes)
    const said = toSaid((await readUpTo(response.body, ERROR_BYTES)).text, upstream)
    throw toStatusFailure(url, response, said)
  } catch (error) {
    if (error instanceof ServiceError) throw error
    if (signal.aborted)
      throw failed(
        'unreachable',
        `Timed out after ${ms / 1_000} s reading the model list from ${url}. Try again. ${NAMED}`,
      )
    const why = error instanceof UpstreamError ? error.message : toReason(error)
    throw failed('unreachable', `Can't reach ${url}: ${why}. Check the base URL and the network.`)
  }
}

function toStatusFailure(url: string, { status, headers }: Response, said: string): ServiceError {
  const words = said === '' ? '' : `: ${said}`
  // Google returns 400 for a wrong key.
  if (status === 401 || status === 403 || (status === 400 && /api[ _-]?key/i.test(said)))
    return failed(
      'credential',
      `${url} rejected the credential (${status})${words}. Check that the key is complete and for this provider.`,
    )
  if (status >= 300 && status < 400) {
    const to = URL.parse(headers.get('location') ?? '', url)?.origin ?? 'nowhere'
    return failed(
      'answer',
      `${url} redirects to ${to} (${status}). The credential was not sent there. If that is the provider, use it as the base URL.`,
    )
  }
  if (status === 404 || status === 405 || status === 501)
    return failed('none', `${url} is not a model list (${status})${words}. ${ADDRESS} ${NAMED}`)
  if (status === 429) return failed('unreachable', `${url} is rate limited (429)${words}. Try again later.`)
  return failed('unreachable', `${url} returned ${status}${words}. Try again later. ${NAMED}`)
}

async function readBounded(url: string, response: Response, most: number, bytes: number): Promise<string> {
  const { text, isWhole } = await readUpTo(response.body, most)
  if (isWhole) return text
  throw failed(
    'answer',
    `${url} sent more than ${Math.round(bytes / 1_048_576)} MiB, too much for a model list. ${NAMED}`,
  )
}

const ERROR_BYTES = 4_096

/** The error message, with credentials masked. */
function toSaid(text: string, upstream: Upstream): string {
  if (/^\s*</.test(text)) return ''
  const [, message = ''] = /"message"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(text) ?? []
  return toPublic(message, upstream)
    .replace(/\\u[0-9a-fA-F]{4}|\\./g, ' ')
    .replace(/^\s+|[\s.]+$/g, '')
    .slice(0, 200)
}

function toJson(url: string, text: string): unknown {
  const json = tryJson(text)
  if (json !== undefined) return json
  const what = /^\s*</.test(text) ? 'a web page' : 'invalid JSON'
  throw failed('answer', `${url} returned ${what} instead of a model list. ${ADDRESS}`)
}
