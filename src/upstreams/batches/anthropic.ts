/**
 * Anthropic's message batches (platform.claude.com/docs/en/api/creating-message-batches): all requests are in one body, and results can be
 * read once all requests have ended.
 */
import { asList, asObject, asText, type JsonObject, tryJson } from '../../domain/json.ts'
import { sourceOf } from '../../domain/json-text.ts'
import { toPublicRequestId } from '../credential-scrubbing.ts'
import { toPath } from '../dialects/anthropic/anthropic.ts'
import { toBareError } from '../dialects/errors.ts'
import { type BatchApi, broken } from './api.ts'
import { type BatchProtocol, type LineOutcome, toCustomId, toIdOf, toNumber } from './protocol.ts'

const MIB = 1024 * 1024

const EXPIRED = { code: 'batch_expired', message: 'This request could not be executed before the batch expired.' }
const CANCELED = { code: 'batch_cancelled', message: 'The batch was canceled before this request was executed.' }
const MISSING = { code: 'no_result', message: 'The provider ended the batch without a result for this line.' }

/** Maximum difference between Anthropic's clock and ours. */
const SKEW_MS = 5 * 60_000

const pathOf = ({ target: { upstream } }: BatchApi, rest: string) => toPath(upstream, `/messages/batches${rest}`)

export const anthropicBatches: BatchProtocol = {
  maxLines: 100_000,
  maxBytes: 240 * MIB,

  async submit(api, { tag, lines }) {
    const pieces = lines.map(
      ({ number, body }, at) => `${at === 0 ? '' : ','}{"custom_id":"${toCustomId(tag, number)}","params":${body}}`,
    )
    const body = new Blob(['{"requests":[', ...pieces, ']}'])
    return toBatchId(await api.upload(pathOf(api, ''), body))
  },

  /** Anthropic stores no mark of ours. Batches are found by time and number of lines, and line IDs are checked later. */
  async find(api, { lines, sinceMs, isTaken }) {
    const { data } = await api.get(pathOf(api, '?limit=100'))
    const match = asList(data).find((each) => {
      const { id, created_at: created, request_counts: counts } = asObject(each) ?? {}
      if (isTaken(asText(id))) return false
      return Date.parse(asText(created)) >= sinceMs - SKEW_MS && sum(asObject(counts) ?? {}) === lines
    })
    return match === undefined ? null : toBatchId(asObject(match) ?? {})
  },

  async look(api, id) {
    const batch = await api.get(pathOf(api, `/${id}`))
    const { processing_status: status, results_url: url } = batch
    if (status !== 'ended' || asText(url) === '') return { phase: 'running' }
    // `results_url` isn't used, since it may name another host.
    const { succeeded } = asObject(batch.request_counts) ?? {}
    const results = typeof succeeded === 'number' ? succeeded : 0
    return { phase: 'ended', sources: [pathOf(api, `/${id}/results`)], results, missing: MISSING }
  },

  async *results(api, source, tag) {
    for await (const text of api.lines(source)) {
      const line = asObject(tryJson(text))
      const number = toNumber(line?.custom_id, tag)
      const result = asObject(line?.result)
      if (number !== null && result !== null) yield { number, outcome: toOutcome(result, text, api) }
    }
  },

  async cancel(api, id) {
    await api.post(pathOf(api, `/${id}/cancel`), null)
  },
}

function toBatchId({ id }: JsonObject): string {
  const found = toIdOf(id)
  if (found === null) throw broken('returned a batch without a usable ID')
  return found
}

const sum = (counts: JsonObject): number =>
  Object.values(counts).reduce<number>((total, count) => total + (typeof count === 'number' ? count : 0), 0)

function toOutcome(result: JsonObject, source: string, { format, target }: BatchApi): LineOutcome {
  switch (result.type) {
    case 'succeeded': {
      const json = asObject(result.message)
      const text = sourceOf(source, 'result', 'message')
      if (json !== null && text !== null) return { kind: 'answer', json, text, requestId: null }
      return { kind: 'failed', error: broken('returned a result without a message'), requestId: null }
    }
    case 'errored': {
      const said = asObject(result.error) ?? {}
      const requestId = toPublicRequestId(asText(said.request_id) || null, target.upstream)
      return { kind: 'failed', error: format.errors.read(null, toBareError(said), target), requestId }
    }
    case 'canceled':
      return { kind: 'unanswered', ...CANCELED }
    case 'expired':
      return { kind: 'unanswered', ...EXPIRED }
    default:
      return { kind: 'unanswered', ...MISSING }
  }
}
