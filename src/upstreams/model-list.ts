/**
 * Asks a provider which models it has, by its dialect's question, and takes nothing on trust: where the answer leads, how long it
 * is, how long it takes and what it is are bounded, and what goes wrong is a sentence that says what to do.
 */

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
  /** For all answers. */
  ms: number
  /** Of all pages together. */
  bytes: number
  pages: number
  models: number
}

/** The longest list that is known, OpenRouter's, has some 400 models and 600 kB. */
const LIMITS: ListLimits = { ms: 30_000, bytes: 16 * 1024 * 1024, pages: 50, models: 20_000 }
/** Nobody has more on a machine of theirs, where whatever listens at a usual port is asked without a word. */
const LOCAL: Partial<ListLimits> = { bytes: 4 * 1024 * 1024, models: 1_000 }

/** How a question goes and its answer comes back: as `fetch` does it. */
export type Send = (url: string, init: RequestInit) => Promise<Response>

export interface ListOptions extends Partial<ListLimits> {
  send?: Send
}

/** Throws `list_failed`: the upstream has refused the credential, has no list, or has sent something else. */
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
    if (page === null) throw failed('answer', `${url} answered with JSON that is no list of models. ${ADDRESS}`)
    for (const model of page.models) models.push(model)
    if (models.length > most)
      throw failed('answer', `${url} names more than ${most} models, which is no list of anybody's: ${NAMED}`)
    if (page.next === null) return askFurther(models, asking)
    if (page.next.length > MAX_NEXT) throw failed('answer', `${url} names a next page at too great length. ${NAMED}`)
    if (seen.has(page.next) || seen.size + 1 >= pages)
      throw failed(
        'answer',
        `The list of models at ${url} never ends: after ${seen.size + 1} pages it had more. ${NAMED}`,
      )
    seen.add(page.next)
    after = page.next
  }
}

/** Of the name of a page, which goes into an address, and into sentences. */
const MAX_NEXT = 1_000

/** So many are asked about one by one: nobody has more on a machine of theirs. */
const MAX_ASKED = 100
const AT_ONCE = 4
/** Of each of these answers: what Ollama says of a model is some ten kilobytes, with its licence. */
const FURTHER_BYTES = 512 * 1024

/** Adds what the upstream says of each model beside its list, as far as it does, and in the time that is left. */
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
      // Whatever it says instead of an answer, its list is good without.
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

const ADDRESS = 'Look whether its base URL is right: it mostly ends in /v1.'
const NAMED = 'Name the models instead, with --models NAME for each.'

type Why = 'credential' | 'none' | 'answer' | 'unreachable'

const failed = (why: Why, message: string) => new ServiceError({ kind: 'list_failed', why }, message)

interface Asking {
  upstream: Upstream
  dialect: Pick<WireFormat, 'headers'>
  signal: AbortSignal
  /** As the sentences say. */
  bytes: number
  ms: number
  send: Send
}

/** @param most bytes that are read. */
async function readPage(
  url: string,
  { upstream, dialect, signal, bytes, ms, send }: Asking,
  most: number,
  body?: object,
): Promise<string> {
  try {
    // A credential is not carried to where somebody else says.
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
      throw failed('unreachable', `${url} had not sent the whole list after ${ms / 1_000} s. Try again, or: ${NAMED}`)
    const why = error instanceof UpstreamError ? error.message : toReason(error)
    throw failed(
      'unreachable',
      `${url} cannot be asked: ${why}. Look whether its base URL is right, and reached from here.`,
    )
  }
}

function toStatusFailure(url: string, { status, headers }: Response, said: string): ServiceError {
  const words = said === '' ? '' : `, and said: ${said}`
  // Google's servers answer a wrong key with a 400.
  if (status === 401 || status === 403 || (status === 400 && /api[ _-]?key/i.test(said)))
    return failed(
      'credential',
      `${url} refused the credential (${status})${words}. Look whether it is whole, and of this provider.`,
    )
  if (status >= 300 && status < 400) {
    const to = URL.parse(headers.get('location') ?? '', url)?.origin ?? 'nowhere'
    return failed(
      'answer',
      `${url} leads elsewhere (${status}), to ${to}. The credential was not sent there: if it is the provider, give its address with --base-url.`,
    )
  }
  if (status === 404 || status === 405 || status === 501)
    return failed('none', `${url} is no list of models (${status})${words}. ${ADDRESS} If it has none: ${NAMED}`)
  if (status === 429)
    return failed('unreachable', `${url} takes no more requests for now (429)${words}. Try again later.`)
  return failed('unreachable', `${url} answered ${status}${words}. Try again later, or: ${NAMED}`)
}

/** @param bytes that a list may have. */
async function readBounded(url: string, response: Response, most: number, bytes: number): Promise<string> {
  const { text, isWhole } = await readUpTo(response.body, most)
  if (isWhole) return text
  throw failed(
    'answer',
    `${url} sent more than ${Math.round(bytes / 1_048_576)} MiB, which is no list of models. ${NAMED}`,
  )
}

/** Nobody reads more of an error. */
const ERROR_BYTES = 4_096

/** Of what it says, the message, without a word of the credential. */
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
  const what = /^\s*</.test(text) ? 'a web page' : 'something that is no JSON'
  throw failed('answer', `${url} answered with ${what}, and no list of models. ${ADDRESS}`)
}
