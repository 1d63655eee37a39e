/**
 * Upstreams with their own batches, as strict as OpenAI's and Anthropic's: unknown fields are refused, results are
 * unordered, and states precede their files. A test decides when and how a batch ends.
 */

import { ABLE, findRefusal } from './anthropic-rules.ts'
import { CREDENTIAL } from './app.ts'

export interface RemoteLine {
  custom_id: string
  body: Record<string, unknown>
}

/** `none`: no result at all. */
export type LineAnswer = { status: number; body: object } | 'expired' | 'none'

export interface BatchUpstream {
  /** Ends in `/v1`. */
  url: string
  batches: RemoteBatch[]
  /** Method and path of each request. */
  asked: string[]
  /** JSON bodies as received. */
  received: string[]
  /** Responds to one request in place of the server; null: as usual. */
  fail: ((method: string, path: string) => Response | 'later' | 'hang' | null) | null
  /** Pause between lines of results, ms. */
  paceMs: number
  answer(line: RemoteLine): LineAnswer
  stop(): Promise<void>
}

export interface RemoteBatch {
  id: string
  lines: RemoteLine[]
  status: string
  /** True if results can be read: the ended state may come first. */
  hasFiles: boolean
  metadata: unknown
  created: number
}

export function startBatchUpstream(api: 'openai' | 'anthropic'): BatchUpstream {
  const files = new Map<string, string>()
  const server = Bun.serve({
    port: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const path = pathname + search
      self.asked.push(`${request.method} ${path}`)
      if (request.headers.get('content-type') === 'application/json') self.received.push(await request.clone().text())
      const failed = self.fail?.(request.method, path) ?? null
      if (failed instanceof Response) return failed
      const answered = await (api === 'openai' ? answerOpenAi : answerAnthropic)(request, pathname)
      if (failed === 'hang') await new Promise(() => {})
      // As if the connection broke after the request was accepted.
      return failed === 'later' ? new Response('upstream connect error', { status: 503 }) : answered
    },
  })
  const self: BatchUpstream = {
    url: `http://127.0.0.1:${server.port}/v1`,
    ...{ batches: [], asked: [], received: [], fail: null, paceMs: 0 },
    answer: () => ({ status: 200, body: {} }),
    stop: () => server.stop(true),
  }
  const add = (lines: RemoteLine[], metadata: unknown = null) => {
    if (new Set(lines.map((line) => line.custom_id)).size < lines.length) return refuse('custom_id must be unique')
    const batch = {
      id: `batch_${self.batches.length}abc`,
      lines,
      status: 'in_progress',
      hasFiles: false,
      metadata,
      created: Date.now(),
    }
    self.batches.unshift(batch)
    return batch
  }
  const results = ({ status, lines }: RemoteBatch) =>
    lines.toReversed().map((line, at) => {
      const isCut = status !== 'completed' && at >= lines.length / 2
      return { line, answer: isCut ? ('expired' as const) : self.answer(line) }
    })

  async function answerOpenAi(request: Request, path: string): Promise<Response> {
    if (request.headers.get('authorization') !== `Bearer ${CREDENTIAL}`) return refuse('wrong key', 401)
    if (path.endsWith('/chat/completions')) return Response.json(toBody(self.answer({ custom_id: '', body: {} })))
    const [, , kind, id, more] = path.split('/')
    if (request.method === 'POST' && kind === 'files') {
      const form = await request.formData()
      const file = form.get('file')
      if (form.get('purpose') !== 'batch' || !(file instanceof File)) return refuse('no file for a batch')
      const name = `file-${files.size}xyz`
      files.set(name, await file.text())
      return Response.json({ id: name, object: 'file', purpose: 'batch', bytes: file.size })
    }
    if (kind === 'files') {
      const text = files.get(id ?? '')
      return text === undefined ? refuse('no such file', 404) : new Response(slowly(text, self.paceMs))
    }
    if (request.method === 'POST' && id === undefined) {
      const { input_file_id: input, endpoint, completion_window: window, metadata, ...rest } = await toJson(request)
      if (window !== '24h' || Object.keys(rest).length > 0) return refuse('unknown parameter')
      const lines = (files.get(String(input)) ?? '')
        .trimEnd()
        .split('\n')
        .map((text) => JSON.parse(text))
      const wrong = lines.find(
        ({ method, url, ...line }) => method !== 'POST' || url !== endpoint || Object.keys(line).length > 2,
      )
      if (wrong || new Set(lines.map(({ body }) => body.model)).size > 1 || lines.some(({ body }) => body.stream))
        return refuse('a line is wrong')
      const batch = add(lines, metadata)
      return batch instanceof Response ? batch : Response.json(toOpenAi(batch))
    }
    if (id === undefined) return Response.json({ object: 'list', data: self.batches.map(toOpenAi), has_more: false })
    const batch = self.batches.find((one) => one.id === id)
    if (!batch) return refuse('no such batch', 404)
    if (more === 'cancel') batch.status = 'cancelling'
    return Response.json(toOpenAi(batch))
  }

  function toOpenAi(batch: RemoteBatch): object {
    const { id, status, metadata, lines, hasFiles } = batch
    const [output, errors]: string[][] = [[], []]
    for (const { line, answer } of results(batch)) {
      const head = { id: 'batch_req_1', custom_id: line.custom_id }
      if (answer === 'none') continue
      if (answer === 'expired') {
        const error = {
          code: 'batch_expired',
          message: 'This request could not be executed before the completion window expired.',
        }
        errors?.push(JSON.stringify({ ...head, response: null, error }))
        continue
      }
      const response = { status_code: answer.status, request_id: 'req-of-theirs', body: answer.body }
      ;(answer.status === 200 ? output : errors)?.push(JSON.stringify({ ...head, response, error: null }))
    }
    const isOver = ['completed', 'expired', 'cancelled'].includes(status)
    const fileOf = (name: string, texts: string[] = []) => {
      if (!isOver || !hasFiles || texts.length === 0) return null
      files.set(`file-${name}-${id}`, texts.join('\n'))
      return `file-${name}-${id}`
    }
    return {
      ...{ id, object: 'batch', status, metadata, errors: null },
      ...{ output_file_id: fileOf('out', output), error_file_id: fileOf('err', errors) },
      request_counts: {
        total: lines.length,
        completed: isOver ? output?.length : 0,
        failed: isOver ? errors?.length : 0,
      },
    }
  }

  async function answerAnthropic(request: Request, path: string): Promise<Response> {
    if (request.headers.get('x-api-key') !== CREDENTIAL) return refuse('wrong key', 401)
    const version = request.headers.get('anthropic-version') ?? ''
    const [, , , , id, more] = path.split('/')
    if (request.method === 'POST' && id === undefined) {
      const { requests, ...rest } = await toJson(request)
      if (!Array.isArray(requests) || Object.keys(rest).length > 0) return refuse('requests: invalid')
      for (const { custom_id: customId, params, ...unknown } of requests) {
        const wrong = findRefusal(params, ABLE, version) ?? (params.stream ? 'stream' : null)
        if (wrong || !/^[\w-]{1,64}$/.test(customId) || Object.keys(unknown).length > 0)
          return refuse(wrong ?? 'custom_id')
      }
      const batch = add(requests.map(({ custom_id, params }) => ({ custom_id, body: params })))
      return batch instanceof Response ? batch : Response.json(toAnthropic(batch))
    }
    if (id === undefined) return Response.json({ data: self.batches.map(toAnthropic), has_more: false })
    const batch = self.batches.find((one) => one.id === id)
    if (!batch) return refuse('no such batch', 404)
    if (more === 'cancel') batch.status = 'cancelling'
    if (more !== 'results') return Response.json(toAnthropic(batch))
    const texts = results(batch).flatMap(({ line: { custom_id }, answer }) => {
      if (answer === 'none') return []
      const error = typeof answer === 'object' && { type: 'error', error: answer.body }
      const result =
        answer === 'expired'
          ? { type: batch.status === 'cancelled' ? 'canceled' : 'expired' }
          : answer.status === 200
            ? { type: 'succeeded', message: answer.body }
            : { type: 'errored', error }
      return [JSON.stringify({ custom_id, result })]
    })
    return new Response(texts.join('\n'))
  }

  function toAnthropic({ id, status, lines, hasFiles, created }: RemoteBatch): object {
    const isOver = ['completed', 'expired', 'cancelled'].includes(status)
    return {
      ...{ id, type: 'message_batch', processing_status: isOver ? 'ended' : status.replace('cancelling', 'canceling') },
      // On another host, which must not receive a credential.
      results_url: isOver && hasFiles ? `http://127.0.0.2:1/v1/messages/batches/${id}/results` : null,
      request_counts: {
        processing: isOver ? 0 : lines.length,
        succeeded: isOver ? lines.length : 0,
        errored: 0,
        canceled: 0,
        expired: 0,
      },
      created_at: new Date(created).toISOString(),
    }
  }
  return self
}

async function* slowly(text: string, paceMs: number): AsyncGenerator<string> {
  if (paceMs === 0) return yield text
  for (const line of text.split('\n')) {
    yield `${line}\n`
    await Bun.sleep(paceMs)
  }
}

const toBody = (answer: LineAnswer) => (typeof answer === 'object' ? answer.body : {})

const toJson = async (request: Request): Promise<Record<string, unknown>> => JSON.parse(await request.text())

const refuse = (message: string, status = 400) =>
  Response.json(
    { type: 'error', error: { type: status === 404 ? 'not_found_error' : 'invalid_request_error', message } },
    { status },
  )
