/** `/v1/files`: the inputs and outputs of a key's batches, in OpenAI's format. */
import { Elysia } from 'elysia'
import type { Batches } from '../batches/batches.ts'
import { type FilePurpose, MAX_FILE_BYTES, type StoredFile } from '../domain/batches.ts'
import { type Decision, GatewayError, orThrow } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import { type Form, isForm, onlyPart, textOf } from '../domain/multipart.ts'
import type { Once } from '../domain/once.ts'
import type { HandleDeps } from '../gateway/handle.ts'
import { receivePieces } from '../gateway/read.ts'
import type { IpOf } from '../keys/token.ts'
import { type Asking, callerOf } from './caller.ts'
import { errorFormatOf } from './endpoints.ts'
import { bearerToken } from './instance.ts'

export interface BatchApiDeps
  extends Pick<HandleDeps, 'live' | 'refusals' | 'load' | 'pace' | 'uploads' | 'limiter' | 'monotonicMs' | 'now'> {
  /** Loaded on first use; absent in a cluster. */
  batches?: Once<Batches>
}

const FORM_BYTES = 64 * 1024
const MAX_NAME_CHARS = 255
const MAX_PAGE = 10_000
export const MIN_KEEP_S = 3_600
export const MAX_KEEP_S = 2_592_000

export const filesController = (deps: BatchApiDeps, ipOf: IpOf) => {
  const answer = answerer(deps)
  return new Elysia({ name: '/v1/files' })
    .use(bearerToken())
    .post('/v1/files', (asking) => upload(deps, ipOf, asking).then((file) => answer(asking, toFile(file))), {
      parse: 'none',
    })
    .get('/v1/files', async (asking) => {
      const key = callerOf(deps, ipOf, asking)
      const batches = await loaded(deps)
      const { purpose, order } = asking.query
      if (order !== undefined && order !== 'asc' && order !== 'desc')
        throw invalid(`'order' must be 'asc' or 'desc'.`, 'order')
      const limit = toLimit(asking.query.limit, MAX_PAGE, MAX_PAGE)
      const query = { keyId: key.id, purpose: toPurpose(purpose), isOldestFirst: order === 'asc' }
      const files = batches.files({ ...query, after: asking.query.after ?? null, limit: limit + 1 })
      return answer(asking, toPage(files.map(toFile), limit))
    })
    .get('/v1/files/:id', async (asking) => {
      const key = callerOf(deps, ipOf, asking)
      return answer(asking, toFile((await loaded(deps)).file(key, asking.params.id)))
    })
    .get('/v1/files/:id/content', async (asking) => {
      const key = callerOf(deps, ipOf, asking)
      const path = (await loaded(deps)).contentOf(key, asking.params.id)
      const headers = { ...idsOf(deps, asking), 'content-type': 'application/octet-stream' }
      return new Response(Bun.file(path), { headers })
    })
    .delete('/v1/files/:id', async (asking) => {
      const key = callerOf(deps, ipOf, asking)
      const { id } = asking.params
      await (await loaded(deps)).deleteFile(key, id)
      return answer(asking, { id, object: 'file', deleted: true })
    })
}

const idsOf = ({ now }: Pick<BatchApiDeps, 'now'>, { request }: Asking) =>
  errorFormatOf(request).ids(toRequestId(mintId(now())))

export const answerer = (deps: Pick<BatchApiDeps, 'now'>) => (asking: Asking, json: object) =>
  Response.json(json, { headers: idsOf(deps, asking) })

/** Throws in a cluster. */
export async function loaded({ batches }: Pick<BatchApiDeps, 'batches'>): Promise<Batches> {
  if (batches) return batches.get()
  throw new GatewayError(
    'invalid_request',
    "Files and batches don't work in a cluster, whose nodes don't share them. Send the requests one by one.",
    { status: 501, code: 'not_supported_in_cluster' },
  )
}

async function upload(deps: BatchApiDeps, ipOf: IpOf, asking: Asking): Promise<StoredFile> {
  const key = callerOf(deps, ipOf, asking)
  const batches = await loaded(deps)
  const type = asking.headers['content-type'] ?? ''
  if (!isForm(type))
    throw new GatewayError('unsupported_content_type', `Send the file as 'multipart/form-data', with its 'purpose'.`)
  try {
    using _slot = orThrow(deps.load.enter(key))
    await using part = await batches.beginUpload(key, statedBytes(asking))
    const most = MAX_FILE_BYTES + FORM_BYTES
    orThrow(await receivePieces(asking.request, deps.uploads, most, (piece) => part.write(piece)))
    const { content, ...about } = orThrow(await readUpload(await part.finish(), type))
    return await batches.addFile(key, content, about)
  } catch (error) {
    // The rest of the body isn't read.
    if (error instanceof GatewayError) error.headers.connection = 'close'
    throw error
  }
}

/** Checked early, so that a body that will be rejected isn't read. */
const statedBytes = ({ headers }: Asking) => Math.min(Number(headers['content-length'] ?? 0) || 0, MAX_FILE_BYTES)

async function readUpload(path: string, type: string) {
  const { readStoredForm } = await import('../batches/upload.ts')
  const stored = await readStoredForm(path, type)
  if (stored instanceof GatewayError) return stored
  const { form, toOffset } = stored
  const file = onlyPart(form, 'file')
  if (file instanceof GatewayError) return file
  if (file === null || file.filename === null) return invalid(`'file' is missing: a part with a file name.`, 'file')
  const purpose = fieldOf(form, 'purpose')
  if (purpose instanceof GatewayError) return purpose
  if (purpose !== 'batch') return invalid(`'purpose' must be 'batch': other files are not supported.`, 'purpose')
  const keepS = toKeepS(fieldOf(form, 'expires_after[anchor]'), fieldOf(form, 'expires_after[seconds]'))
  if (keepS instanceof GatewayError) return keepS
  const start = toOffset(file.start)
  const content = { path, start, length: toOffset(file.end) - start }
  if (content.length === 0) return invalid('The file is empty.', 'file')
  if (content.length > MAX_FILE_BYTES)
    return new GatewayError('request_too_large', `The file is larger than ${MAX_FILE_BYTES} bytes.`, { param: 'file' })
  return { content, filename: file.filename.slice(0, MAX_NAME_CHARS) || 'file', purpose: 'batch' as const, keepS }
}

function fieldOf(form: Form, name: string): Decision<string | null> {
  const part = onlyPart(form, name)
  return part === null || part instanceof GatewayError ? part : textOf(form, part)
}

/** Returns seconds; null for the default. */
export function toKeepS(anchor: unknown, seconds: unknown, param = 'expires_after'): Decision<number | null> {
  if (anchor instanceof GatewayError) return anchor
  if (seconds instanceof GatewayError) return seconds
  if (anchor === null && seconds === null) return null
  const keepS = typeof seconds === 'string' && /^\d+$/.test(seconds) ? Number(seconds) : seconds
  const isSeconds = typeof keepS === 'number' && Number.isInteger(keepS) && keepS >= MIN_KEEP_S && keepS <= MAX_KEEP_S
  if (anchor === 'created_at' && isSeconds) return keepS
  return invalid(`'${param}' needs 'anchor' "created_at" and 'seconds' from ${MIN_KEEP_S} to ${MAX_KEEP_S}.`, param)
}

function toPurpose(purpose: string | undefined): FilePurpose | null {
  if (purpose === undefined) return null
  if (purpose === 'batch' || purpose === 'batch_output') return purpose
  throw invalid(`'purpose' must be 'batch' or 'batch_output'.`, 'purpose')
}

export function toLimit(text: string | undefined, most: number, usual: number): number {
  if (text === undefined) return usual
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (limit >= 1 && limit <= most) return limit
  throw invalid(`'limit' must be a whole number from 1 to ${most}.`, 'limit')
}

/** @param found one more than the limit, if there are further items. */
export function toPage<Item extends { id: string }>(found: readonly Item[], limit: number) {
  const data = found.slice(0, limit)
  const [first, last] = [data[0]?.id ?? null, data.at(-1)?.id ?? null]
  return { object: 'list', data, first_id: first, last_id: last, has_more: found.length > limit }
}

export const toSeconds = (ms: number) => Math.floor(ms / 1_000)

const toFile = ({ id, bytes, createdMs, expiresMs, filename, purpose }: StoredFile) => ({
  ...{ id, object: 'file', bytes, created_at: toSeconds(createdMs) },
  ...{ expires_at: expiresMs === null ? null : toSeconds(expiresMs), filename, purpose, status: 'processed' },
})

export const invalid = (message: string, param: string) => new GatewayError('invalid_request', message, { param })
