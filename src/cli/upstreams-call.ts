/**
 * `tollgate upstreams test --call`: one tiny call to each upstream, through the running server, on record and paid as any other, under
 * the key `system`.
 */
import { messageOf } from '../domain/error.ts'
import { toUsd } from '../domain/usage.ts'
import { socketPath } from '../server/protocol.ts'
import { readAnswer } from './ask-answer.ts'
import { type AskedServer, fetchFrom } from './ask-server.ts'
import { CommandError, usageError } from './command-error.ts'
import { type Context, printJson, toDescribedTable, toPrintable } from './io.ts'
import { findServer } from './live.ts'
import { toAdvice } from './upstream-advice.ts'

/** What such a call has come to. */
interface Called {
  id: string
  state: 'ready' | 'failed'
  /** Why it failed, and what to do. */
  reason: string | null
  advice: string | null
  ms: number | null
  model: string | null
  request_id: string | null
  cost_nano_usd: number | null
}

/** Enough for a word or two. */
const MAX_TOKENS = 16

export async function call(ids: readonly string[], model: string | undefined, io: Context): Promise<void> {
  if (ids.length === 0) throw usageError('A call costs something: name the upstreams that --call is to ask.')
  const found = await findServer(io.dataFolder)
  if (found.kind === 'silent') throw new CommandError('server_silent', `The server cannot be asked: ${found.why}.`)
  if (found.kind === 'none')
    throw new CommandError(
      'no_server',
      `No server runs on ${io.dataFolder}, and only one keeps the record of a call. Start it with: tollgate serve --data ${io.dataFolder}`,
    )
  const results: Called[] = []
  for (const id of new Set(ids)) results.push(await callOne(id, model, io))
  if (io.json) printJson(io, { upstreams: results })
  else io.stdout(toText(results, io))
  const failed = results.filter(({ state }) => state === 'failed')
  if (failed.length > 0)
    throw new CommandError('upstreams_failed', `${failed.length} of ${results.length} could not answer.`)
}

async function callOne(id: string, wanted: string | undefined, io: Context): Promise<Called> {
  const base = `http://localhost/system/upstreams/${encodeURIComponent(id)}/v1`
  const server: AskedServer = { base, unix: socketPath(io.dataFolder), key: null, keyFrom: '--key' }
  const startedMs = performance.now()
  const failed = (reason: string, model: string | null): Called => {
    const ms = Math.round(performance.now() - startedMs)
    return { id, state: 'failed', reason, advice: toAdvice(reason), ms, model, request_id: null, cost_nano_usd: null }
  }
  const model = wanted ?? (await cheapestAt(server))
  if (model === null)
    return failed('no model has a route to an upstream of this name that is enabled: tollgate upstreams list', null)
  try {
    const response = await fetchFrom(server, '/chat/completions', {
      model,
      messages: [{ role: 'user', content: 'Say OK.' }],
      max_tokens: MAX_TOKENS,
      stream: true,
      stream_options: { include_usage: true },
    })
    const { requestId, usage } = await readAnswer(response, ignore, ignore)
    const ms = Math.round(performance.now() - startedMs)
    const more = { ms, model, request_id: requestId, cost_nano_usd: usage.cost_nano_usd }
    return { id, state: 'ready', reason: null, advice: null, ...more }
  } catch (error) {
    return failed(await whyFailed(id, messageOf(error), io), model)
  }
}

const ignore = () => {}

interface Offer {
  id: string
  output_modalities: string[]
  pricing: { prompt: string; completion: string }[]
}

/** The cheapest model that writes; null where there is none. */
async function cheapestAt(server: AskedServer): Promise<string | null> {
  const { data }: { data: Offer[] } = JSON.parse(await (await fetchFrom(server, '/models')).text())
  const writing = data.filter(({ output_modalities: output }) => output.includes('text'))
  const [best] = writing.toSorted((a, b) => toPrice(a) - toPrice(b))
  return best?.id ?? null
}

const toPrice = ({ pricing: [first] }: Offer) => Number(first?.prompt ?? 0) + Number(first?.completion ?? 0)

/** What clients are told says less than what the server knows. */
async function whyFailed(id: string, told: string, io: Context): Promise<string> {
  const found = await findServer(io.dataFolder)
  const upstream = found.kind === 'server' ? found.status.upstreams.find((one) => one.id === id) : undefined
  const known = upstream?.last_error?.message ?? upstream?.reason
  return known && !told.includes(known) ? `${told.replace(/\.$/, '')}: ${known}` : told
}

function toText(results: readonly Called[], io: Context): string {
  const rows = results.map(({ id, state, ms, model }) => [id, state, ms === null ? '-' : String(ms), model ?? '-'])
  const notes = results.map((result) =>
    [toOutcome(result), result.advice ?? ''].filter((line) => line !== '').map(toPrintable),
  )
  const cells = rows.map((row) => row.map(toPrintable))
  return toDescribedTable(['ID', 'STATE', 'MS', 'MODEL'], cells, notes, io.paint)
}

const toOutcome = ({ reason, request_id: requestId, cost_nano_usd: cost }: Called) =>
  reason ?? `answers; ${requestId}, ${cost === 0 ? 'free' : `$${toUsd(cost ?? 0)}`}`
