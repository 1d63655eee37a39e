/**
 * Batches of OpenAI (platform.openai.com/docs/api-reference/batch) and Groq: a batch names an uploaded file of lines. Its responses and
 * errors are in two other files.
 */
import { asList, asObject, asText, type JsonObject, tryJson } from '../../domain/json.ts'
import { sourceOf } from '../../domain/json-text.ts'
import { toPublic, toPublicCode, toPublicRequestId } from '../credential-scrubbing.ts'
import { readErrorBody } from '../dialects/errors.ts'
import { type BatchApi, broken } from './api.ts'
import {
  type BatchProtocol,
  type BatchState,
  type LineResult,
  type Submission,
  toCustomId,
  toIdOf,
  toNumber,
  type Unanswered,
} from './protocol.ts'

const MIB = 1024 * 1024

/** Reasons of missing results, by final state. A `failed` batch never began. */
const MISSING: Readonly<Record<string, Unanswered>> = {
  completed: { code: 'no_result', message: 'The provider completed the batch without a result for this line.' },
  expired: { code: 'batch_expired', message: 'This request could not be executed before the batch expired.' },
  cancelled: { code: 'batch_cancelled', message: 'The batch was canceled before this request was executed.' },
}

export const openAiBatches: BatchProtocol = {
  maxLines: 50_000,
  maxBytes: 190 * MIB,

  async submit(api, { tag, path, lines }) {
    const url = `/v1${path}`
    const form = new FormData()
    form.set('purpose', 'batch')
    form.set('file', new File(toFile(tag, url, lines), `tollgate-${tag}.jsonl`, { type: 'application/jsonl' }))
    const uploaded = toIdOf((await api.upload('/files', form)).id)
    if (uploaded === null) throw broken('returned an uploaded file without a usable ID')
    const metadata = { tollgate: tag }
    const named = { input_file_id: uploaded, endpoint: url, completion_window: '24h', metadata }
    return toBatchId(await api.post('/batches', named))
  },

  async find(api, { tag }) {
    for (let after = '', page = 0; page < MAX_PAGES; page++) {
      const { data, has_more: hasMore } = await api.get(`/batches?limit=100${after}`)
      const batches = asList(data).map((each) => asObject(each) ?? {})
      const match = batches.find(({ metadata }) => asObject(metadata)?.tollgate === tag)
      if (match) return toBatchId(match)
      const last = toIdOf(batches.at(-1)?.id)
      if (hasMore !== true || last === null) break
      after = `&after=${last}`
    }
    return null
  },

  async look(api, id) {
    return toState(await api.get(`/batches/${id}`), api)
  },

  async *results(api, source, tag) {
    for await (const line of api.lines(source)) {
      const read = toResult(line, api, tag)
      if (read) yield read
    }
  },

  async cancel(api, id) {
    await api.post(`/batches/${id}/cancel`, null)
  },
}

/** Pages to search for a lost batch. Newer batches come first. */
const MAX_PAGES = 5

const toFile = (tag: string, url: string, lines: Submission['lines']): string[] =>
  lines.map(({ number, body }) => {
    const head = JSON.stringify({ custom_id: toCustomId(tag, number), method: 'POST', url })
    return `${head.slice(0, -1)},"body":${body}}\n`
  })

function toBatchId({ id }: JsonObject): string {
  const found = toIdOf(id)
  if (found === null) throw broken('returned a batch without a usable ID')
  return found
}

function toState(batch: JsonObject, { target: { upstream } }: BatchApi): BatchState {
  const status = asText(batch.status)
  if (status === 'failed') {
    const [first] = asList(asObject(batch.errors)?.data)
    const { code, message } = asObject(first) ?? {}
    const why = toPublic(asText(message) || 'gave no reason', upstream)
    const missing = {
      code: toPublicCode(asText(code), upstream) ?? 'batch_failed',
      message: `The provider rejected the batch: ${why}`,
    }
    return { phase: 'ended', sources: [], results: 0, missing }
  }
  const missing = Object.hasOwn(MISSING, status) ? MISSING[status] : undefined
  if (missing === undefined) return { phase: 'running' }
  const { completed, failed } = asObject(batch.request_counts) ?? {}
  const [output, errors] = [toIdOf(batch.output_file_id), toIdOf(batch.error_file_id)]
  // The final state may be reported before the files.
  const isEarly = lacks(completed, output) || lacks(failed, errors)
  if (isEarly || (status === 'completed' && output === null && errors === null)) return { phase: 'running' }
  const sources = [output, errors].flatMap((id) => (id ? [`/files/${id}/content`] : []))
  return { phase: 'ended', sources, results: typeof completed === 'number' ? completed : 0, missing }
}

const lacks = (count: unknown, file: string | null) => typeof count === 'number' && count > 0 && file === null

function toResult(source: string, { format, target }: BatchApi, tag: string): LineResult | null {
  const line = asObject(tryJson(source))
  const number = toNumber(line?.custom_id, tag)
  if (line === null || number === null) return null
  const { upstream } = target
  const response = asObject(line.response)
  if (response === null) {
    const { code, message } = asObject(line.error) ?? {}
    const said = {
      code: toPublicCode(asText(code), upstream) ?? 'no_result',
      message: toPublic(asText(message), upstream),
    }
    return { number, outcome: { kind: 'unanswered', ...said } }
  }
  const { status_code: status, body } = response
  const requestId = toPublicRequestId(asText(response.request_id) || null, upstream)
  const json = asObject(body)
  const text = sourceOf(source, 'response', 'body') ?? 'null'
  if (status === 200 && json !== null) return { number, outcome: { kind: 'answer', json, text, requestId } }
  const stated = typeof status === 'number' && status >= 400 ? status : 502
  return { number, outcome: { kind: 'failed', error: readErrorBody(format.errors, stated, text, target), requestId } }
}
