/** `/v1/batches`: a key's batches, in OpenAI's format. */
import { Elysia } from 'elysia'
import {
  BATCH_ENDPOINTS,
  type BatchState,
  COMPLETION_WINDOW,
  type StoredBatch,
  toBatchEndpoint,
} from '../domain/batches.ts'
import { type Decision, GatewayError, orThrow } from '../domain/error.ts'
import { mintId } from '../domain/id.ts'
import { asObject, type JsonObject, tryJson } from '../domain/json.ts'
import type { Key } from '../domain/snapshot.ts'
import { ENDPOINT_PATHS } from '../domain/task.ts'
import type { IpOf } from '../keys/token.ts'
import { teamOf } from '../routing/access.ts'
import { type Asking, callerOf, withBody } from './caller.ts'
import { answerer, type BatchApiDeps, invalid, loaded, toKeepS, toLimit, toPage, toSeconds } from './files.ts'
import { bearerToken } from './instance.ts'

const MAX_BYTES = 64 * 1024
const MAX_PAGE = 100
const USUAL_PAGE = 20
const MAX_PAIRS = 16
const MAX_NAME_CHARS = 64
const MAX_VALUE_CHARS = 512

export const batchesController = (deps: BatchApiDeps, ipOf: IpOf) => {
  const answer = answerer(deps)
  return new Elysia({ name: '/v1/batches' })
    .use(bearerToken())
    .post('/v1/batches', async (asking) => answer(asking, toBatch(await create(deps, ipOf, asking))), { parse: 'none' })
    .get('/v1/batches', async (asking) => {
      const key = callerOf(deps, ipOf, asking)
      const limit = toLimit(asking.query.limit, MAX_PAGE, USUAL_PAGE)
      const after = asking.query.after ?? null
      const query = { keyId: key.id, api: 'openai', after, before: null, limit: limit + 1 } as const
      const found = (await loaded(deps)).batches(query)
      return answer(asking, toPage(found.map(toBatch), limit))
    })
    .get('/v1/batches/:id', async (asking) => {
      const key = callerOf(deps, ipOf, asking)
      return answer(asking, toBatch((await loaded(deps)).batch(key, 'openai', asking.params.id)))
    })
    .post(
      '/v1/batches/:id/cancel',
      async (asking) => {
        const key = callerOf(deps, ipOf, asking)
        return answer(asking, toBatch(await (await loaded(deps)).cancel(key, 'openai', asking.params.id)))
      },
      { parse: 'none' },
    )
}

async function create(deps: BatchApiDeps, ipOf: IpOf, asking: Asking): Promise<StoredBatch> {
  const key = callerOf(deps, ipOf, asking)
  const batches = await loaded(deps)
  const toRead = (bytes: Uint8Array) => Promise.resolve(orThrow(readCreate(bytes)))
  const asked = await withBody(deps, key, asking.request, toRead, MAX_BYTES)
  const { purpose } = batches.file(key, asked.inputFileId, 'input_file_id')
  if (purpose !== 'batch') throw invalid(`'input_file_id' must be a file with the purpose 'batch'.`, 'input_file_id')
  await countRequest(deps, key)
  return batches.create(key, { api: 'openai', ...asked })
}

/** Counts the request in the key's rate limit, so that a key can't create batches without limit. */
export async function countRequest(deps: BatchApiDeps, key: Key): Promise<void> {
  const { limiter, live, monotonicMs, now } = deps
  const monotonic = monotonicMs()
  const entered = orThrow(await limiter.enter(mintId(now()), key, teamOf(live.snapshot, key), monotonic))
  const nothing = { tokens: 0, nanoUsd: 0 }
  const reservation = orThrow(await entered.admit(nothing, { monotonicMs: monotonic, wallMs: now() }))
  reservation.settle(nothing)
}

function readCreate(bytes: Uint8Array) {
  const json = asObject(tryJson(Buffer.from(bytes).toString()))
  if (json === null)
    return new GatewayError('invalid_request', 'We could not parse the JSON body of your request: it is not an object.')
  const { input_file_id: inputFileId, completion_window: window } = json
  if (typeof inputFileId !== 'string') return invalid(`'input_file_id' must be the ID of a file.`, 'input_file_id')
  const endpoint = toBatchEndpoint(json.endpoint)
  if (endpoint === null) {
    const paths = BATCH_ENDPOINTS.map((name) => ENDPOINT_PATHS[name]).join(', ')
    return invalid(`'endpoint' must be one of: ${paths}.`, 'endpoint')
  }
  if (window !== COMPLETION_WINDOW)
    return invalid(`'completion_window' must be "${COMPLETION_WINDOW}".`, 'completion_window')
  const metadata = toMetadata(json.metadata ?? null)
  if (metadata instanceof GatewayError) return metadata
  const keepOutputS = toKeepOutputS(json)
  if (keepOutputS instanceof GatewayError) return keepOutputS
  return { inputFileId, endpoint, metadata, keepOutputS }
}

function toKeepOutputS({ output_expires_after: expires = null }: JsonObject): Decision<number | null> {
  if (expires === null) return null
  const { anchor = null, seconds = null } = asObject(expires) ?? { anchor: '' }
  return toKeepS(anchor, seconds, 'output_expires_after')
}

function toMetadata(metadata: unknown): Decision<Record<string, string> | null> {
  if (metadata === null) return null
  const pairs = Object.entries(asObject(metadata) ?? { '': null })
  const texts = pairs.filter(
    (pair): pair is [string, string] =>
      typeof pair[1] === 'string' && pair[0].length <= MAX_NAME_CHARS && pair[1].length <= MAX_VALUE_CHARS,
  )
  if (texts.length === pairs.length && pairs.length <= MAX_PAIRS) return Object.fromEntries(texts)
  return invalid(
    `'metadata' must be an object of at most ${MAX_PAIRS} texts of at most ${MAX_VALUE_CHARS} characters, with names of at most ${MAX_NAME_CHARS}.`,
    'metadata',
  )
}

function toBatch(batch: StoredBatch) {
  const { id, endpoint, inputFileId, state, createdMs, expiresMs, detail } = batch
  const { at, counts, usage, problems, hasOutput, hasErrors, outputFileId, errorFileId, metadata, model } = detail
  const since = (name: BatchState) => {
    const ms = name === 'expired' && state !== 'expired' ? undefined : at[name]
    return ms === undefined ? null : toSeconds(ms)
  }
  return {
    id,
    object: 'batch',
    endpoint: ENDPOINT_PATHS[endpoint],
    model,
    errors: problems.length === 0 ? null : { object: 'list', data: problems },
    input_file_id: inputFileId,
    completion_window: COMPLETION_WINDOW,
    status: state,
    output_file_id: hasOutput ? outputFileId : null,
    error_file_id: hasErrors ? errorFileId : null,
    created_at: toSeconds(createdMs),
    in_progress_at: since('in_progress'),
    expires_at: toSeconds(expiresMs),
    finalizing_at: since('finalizing'),
    completed_at: since('completed'),
    failed_at: since('failed'),
    expired_at: since('expired'),
    cancelling_at: since('cancelling'),
    cancelled_at: since('cancelled'),
    request_counts: { total: counts.total, completed: counts.completed, failed: counts.failed },
    usage: {
      input_tokens: usage.input,
      input_tokens_details: { cached_tokens: usage.cached },
      output_tokens: usage.output,
      output_tokens_details: { reasoning_tokens: usage.reasoning },
      total_tokens: usage.input + usage.output,
    },
    metadata,
  }
}
