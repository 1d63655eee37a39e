/** Requests about batches, which are few and aren't model calls. Credentials, headers, and errors are the same as for calls. */
import { nameOf, UpstreamError } from '../../domain/error.ts'
import { asObject, type JsonObject, tryJson } from '../../domain/json.ts'
import type { Target } from '../../domain/snapshot.ts'
import { HOPS_HEADER } from '../../domain/task.ts'
import { readUpTo } from '../../domain/text.ts'
import type { WireFormat } from '../dialects/dialect.ts'
import { readFailure } from '../dialects/errors.ts'
import { toOwnHeaders } from '../probe.ts'

const ASK_MS = 60_000
/** Timeout of an upload, or of reading a file of results. */
const FILE_MS = 15 * 60_000
const MAX_JSON_BYTES = 4 * 1024 * 1024
const MAX_LINE_CHARS = 32 * 1024 * 1024
const MAX_ERROR_BYTES = 64 * 1024

export interface BatchApiDeps {
  format: WireFormat
  /** Any model of the upstream, with the credential in use. */
  target: Target
  /** This server's value of the hops header. */
  hops: string
  /** Aborts when the server stops. */
  signal: AbortSignal
}

export class BatchApi {
  readonly #deps: BatchApiDeps

  constructor(deps: BatchApiDeps) {
    this.#deps = deps
  }

  get format(): WireFormat {
    return this.#deps.format
  }

  get target(): Target {
    return this.#deps.target
  }

  async get(path: string): Promise<JsonObject> {
    return this.#json(path, { method: 'GET' }, ASK_MS)
  }

  async post(path: string, body: object | null): Promise<JsonObject> {
    return this.#json(path, { method: 'POST', body: body === null ? '' : JSON.stringify(body) }, ASK_MS)
  }

  /** @param body a form, or JSON in pieces, which may be too long for one string. */
  async upload(path: string, body: FormData | Blob): Promise<JsonObject> {
    return this.#json(path, { method: 'POST', body }, FILE_MS)
  }

  /** Lines of a file, read as they arrive. Empty ones are skipped. */
  async *lines(path: string): AsyncGenerator<string> {
    const response = await this.#send(path, { method: 'GET' }, FILE_MS, '*/*')
    const utf8 = new TextDecoder()
    let rest = ''
    try {
      for await (const piece of response.body ?? []) {
        rest += utf8.decode(piece, { stream: true })
        let from = 0
        for (let to = rest.indexOf('\n'); to !== -1; to = rest.indexOf('\n', from)) {
          if (to > from) yield rest.slice(from, to)
          from = to + 1
        }
        rest = rest.slice(from)
        if (rest.length > MAX_LINE_CHARS) throw broken('returned a line of more than 32 MiB')
      }
    } catch (error) {
      throw this.#toError(error)
    }
    rest += utf8.decode()
    if (rest.trim() !== '') yield rest
  }

  async #json(path: string, init: RequestInit, ms: number): Promise<JsonObject> {
    const response = await this.#send(path, init, ms, 'application/json')
    const { text, isWhole } = await this.#read(response, MAX_JSON_BYTES)
    const json = isWhole ? asObject(tryJson(text)) : null
    if (json === null) throw broken(`returned 200 with something that is not JSON for ${toPlain(path)}`)
    return json
  }

  async #send(path: string, init: RequestInit, ms: number, accept: string): Promise<Response> {
    const { format, target, hops, signal } = this.#deps
    const { upstream } = target
    const headers: Record<string, string> = {
      ...{ accept, 'user-agent': 'tollgate', [HOPS_HEADER]: hops },
      ...toOwnHeaders(upstream),
      ...format.headers(upstream),
    }
    if (!(init.body instanceof FormData) && init.body) headers['content-type'] = 'application/json'
    let response: Response
    try {
      // A redirect would send the credential to another address.
      const ending = AbortSignal.any([signal, AbortSignal.timeout(ms)])
      response = await fetch(`${upstream.baseUrl}${path}`, { ...init, headers, redirect: 'manual', signal: ending })
    } catch (error) {
      throw this.#toError(error)
    }
    if (response.status === 200) return response
    const { text } = await this.#read(response, MAX_ERROR_BYTES)
    const header = (name: string) => response.headers.get(name)
    throw readFailure(format, response.status, text, { header }, target)
  }

  async #read(response: Response, mostBytes: number) {
    try {
      return await readUpTo(response.body, mostBytes)
    } catch (error) {
      throw this.#toError(error)
    }
  }

  #toError(error: unknown): UpstreamError {
    if (error instanceof UpstreamError) return error
    if (this.#deps.signal.aborted)
      return new UpstreamError('aborted', 'the server is shutting down', { end: 'stopped' })
    const name = nameOf(error)
    return name === 'TimeoutError'
      ? new UpstreamError('deadline', 'did not respond in time', { deadline: 'batch', retryable: true })
      : new UpstreamError('connection', `is unreachable or closed the connection (${name})`, { cause: error })
  }
}

export const broken = (message: string) => new UpstreamError('broken', message)

/** The path without IDs, for messages. */
const toPlain = (path: string) => path.replace(/\?.*/, '').replace(/[\w-]{12,}/g, '…')
