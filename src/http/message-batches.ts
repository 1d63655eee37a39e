/** `/v1/messages/batches`: a key's batches, in Anthropic's format (platform.claude.com/docs/en/api/creating-message-batches). */
import { Elysia } from 'elysia'
import type { Batches } from '../batches/batches.ts'
import { isFinal, MAX_FILE_BYTES, type StoredBatch } from '../domain/batches.ts'
import { GatewayError, orThrow } from '../domain/error.ts'
import { asObject, asText, type JsonObject, tryJson } from '../domain/json.ts'
import { sourceOf } from '../domain/json-text.ts'
import type { Key } from '../domain/snapshot.ts'
import type { HandleDeps } from '../gateway/handle.ts'
import type { IpOf } from '../keys/token.ts'
import { countRequest } from './batches.ts'
import { type Asking, callerOf, withBody } from './caller.ts'
import { answerer, type BatchApiDeps, loaded, toLimit } from './files.ts'
import { bearerToken } from './instance.ts'

const PATH = '/v1/messages/batches'
const MAX_PAGE = 1_000
const USUAL_PAGE = 20

export interface MessageBatchDeps extends BatchApiDeps, Pick<HandleDeps, 'pace'> {
  /** Whether this server itself has TLS. */
  isSecure?: boolean
  /** Origins that clients use for this server. */
  publicUrls?: readonly string[]
}

export const messageBatchesController = (deps: MessageBatchDeps, ipOf: IpOf) => {
  const respond = answerer(deps)
  const answer = (asking: Asking, batch: StoredBatch) => respond(asking, toBatch(batch, originOf(deps, asking)))
  const find = async (asking: Asking, id: string): Promise<{ key: Key; batches: Batches; batch: StoredBatch }> => {
    const key = callerOf(deps, ipOf, asking)
    const batches = await loaded(deps)
    return { key, batches, batch: batches.batch(key, 'anthropic', id) }
  }
  return new Elysia({ name: PATH })
    .use(bearerToken())
    .post(PATH, async (asking) => answer(asking, await create(deps, ipOf, asking)), { parse: 'none' })
    .get(PATH, async (asking) => {
      const key = callerOf(deps, ipOf, asking)
      const limit = toLimit(asking.query.limit, MAX_PAGE, USUAL_PAGE)
      const { after_id: after = null, before_id: before = null } = asking.query
      const batches = await loaded(deps)
      const found = batches.batches({ keyId: key.id, api: 'anthropic', after, before, limit: limit + 1 })
      // The extra item is at the far end of the page.
      const page = before === null ? found.slice(0, limit) : found.slice(-limit)
      const data = page.map((batch) => toBatch(batch, originOf(deps, asking)))
      const [first, last] = [data[0]?.id ?? null, data.at(-1)?.id ?? null]
      return respond(asking, { data, has_more: found.length > limit, first_id: first, last_id: last })
    })
    .get(`${PATH}/:id`, async (asking) => answer(asking, (await find(asking, asking.params.id)).batch))
    .get(`${PATH}/:id/results`, async (asking) => {
      const { batches, batch } = await find(asking, asking.params.id)
      if (!isFinal(batch.state)) throw notEnded(batch.id, 'has no results yet')
      const results = toResults(batches.resultsOf(batch))
      return new Response(results, { headers: { 'content-type': 'application/x-jsonl' } })
    })
    .post(
      `${PATH}/:id/cancel`,
      async (asking) => {
        const { key, batches, batch } = await find(asking, asking.params.id)
        return answer(asking, await batches.cancel(key, 'anthropic', batch.id))
      },
      { parse: 'none' },
    )
    .delete(`${PATH}/:id`, async (asking) => {
      const { batches, batch } = await find(asking, asking.params.id)
      if (!isFinal(batch.state)) throw notEnded(batch.id, "can't be deleted yet")
      await batches.deleteBatch(batch)
      return respond(asking, { id: batch.id, type: 'message_batch_deleted' })
    })
}

const isoOf = (ms: number) => new Date(ms).toISOString()

const notEnded = (id: string, what: string) =>
  new GatewayError('invalid_request', `Batch ${id} ${what}: it is in progress.`, { param: 'id' })

/** The origin that the client used, which a proxy may have changed. */
function originOf({ isSecure = false, publicUrls = [] }: MessageBatchDeps, { request, headers }: Asking): string {
  const host = URL.parse(request.url)?.host
  const known = publicUrls.find((origin) => URL.parse(origin)?.host === host) ?? publicUrls[0]
  if (known !== undefined) return known
  const isOverTls = isSecure || headers['x-forwarded-proto'] === 'https'
  return `${isOverTls ? 'https' : 'http'}://${host ?? 'localhost'}`
}

async function create(deps: MessageBatchDeps, ipOf: IpOf, asking: Asking): Promise<StoredBatch> {
  const key = callerOf(deps, ipOf, asking)
  const batches = await loaded(deps)
  batches.requireRoom(key, 0)
  const { toRequestLines } = await import('../batches/message-requests.ts')
  const store = async (body: Uint8Array) => {
    const { bytes, lines } = orThrow(await toRequestLines(body, (work) => deps.pace.run(key.quotaId, work)))
    await countRequest(deps, key)
    const { id } = await batches.addFile(key, bytes, { filename: 'requests.jsonl', purpose: 'hidden', keepS: null })
    const asked = {
      api: 'anthropic',
      endpoint: 'messages',
      inputFileId: id,
      metadata: null,
      keepOutputS: null,
    } as const
    return batches.create(key, { ...asked, lines })
  }
  return withBody(deps, key, asking.request, store, MAX_FILE_BYTES)
}

function toBatch({ id, state, createdMs, expiresMs, detail }: StoredBatch, origin: string) {
  const { at, counts } = detail
  const { total, completed, failed, cut } = counts
  const hasEnded = isFinal(state)
  const endedMs = hasEnded ? at[state] : undefined
  return {
    id,
    type: 'message_batch',
    processing_status: hasEnded ? 'ended' : state === 'cancelling' ? 'canceling' : 'in_progress',
    request_counts: {
      processing: hasEnded ? 0 : total - completed - failed,
      succeeded: completed,
      errored: hasEnded ? total - completed - cut : failed - cut,
      canceled: at.cancelling ? cut : 0,
      expired: at.cancelling ? 0 : cut,
    },
    created_at: isoOf(createdMs),
    expires_at: isoOf(expiresMs),
    ended_at: endedMs === undefined ? null : isoOf(endedMs),
    archived_at: null,
    cancel_initiated_at: at.cancelling === undefined ? null : isoOf(at.cancelling),
    results_url: hasEnded ? `${origin}${PATH}/${id}/results` : null,
  }
}

async function* toResults(paths: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const path of paths) {
    let rest = ''
    const utf8 = new TextDecoder()
    for await (const chunk of Bun.file(path).stream()) {
      const lines = (rest + utf8.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      if (lines.length > 0) yield Buffer.from(lines.map(toResult).join(''))
    }
  }
}

function toResult(line: string): string {
  const { custom_id, response, error } = asObject(tryJson(line)) ?? {}
  const answered = asObject(response)
  const body = sourceOf(line, 'response', 'body') ?? 'null'
  const result = answered ? toAnswered(answered, body) : JSON.stringify(toUnanswered(asObject(error) ?? {}))
  return `{"custom_id":${JSON.stringify(custom_id)},"result":${result}}\n`
}

const toAnswered = ({ status_code: status }: JsonObject, body: string) =>
  status === 200 ? `{"type":"succeeded","message":${body}}` : `{"type":"errored","error":${body}}`

function toUnanswered({ code, message }: JsonObject): object {
  if (code === 'batch_expired') return { type: 'expired' }
  if (code === 'batch_cancelled') return { type: 'canceled' }
  const type = code === 'invalid_request' ? 'invalid_request_error' : 'api_error'
  return { type: 'errored', error: { type: 'error', error: { type, message: asText(message) }, request_id: null } }
}
