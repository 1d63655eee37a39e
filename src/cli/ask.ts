/** `tollgate ask`: sends one prompt, over HTTP with a key, else over the control socket of the data folder's owner. */

import type { Command } from 'commander'
import { codeOf, messageOf } from '../domain/error.ts'
import { endpointsOf } from '../domain/models.ts'
import { withoutSecrets } from '../domain/setting-text.ts'
import { toUsd } from '../domain/usage.ts'
import { socketPath } from '../server/protocol.ts'
import { CommandError, usageError } from './command-error.ts'
import { findServer } from './control-client.ts'
import { type Context, printJson, toExamples, toOneLine } from './io.ts'

export function addAsk(command: Command, context: Context): void {
  command
    .argument('[prompt...]', 'prompt; piped input is appended')
    .option('--model <id>', 'model ID (default: the cheapest ready model)')
    .option('--key <key>', 'API key (env TOLLGATE_KEY); not needed if you own the data folder')
    .option('--url <url>', 'server to call; requires a key (default: the server of the data folder)')
    .addHelpText(
      'after',
      toExamples('ask "What is a ledger?"', 'ask --model openai/gpt-4o-mini "Summarize this" < notes.txt'),
    )
    .action((words: string[], flags: AskFlags) => ask(words, flags, context))
}

interface AskFlags {
  model?: string
  key?: string
  url?: string
}

export async function ask(words: readonly string[], flags: AskFlags, io: Context): Promise<void> {
  const content = await toQuestion(words, io)
  const server = await chooseServer(flags, io)
  const startedMs = performance.now()
  const model = flags.model ?? (await chooseModel(server))
  const response = await fetchFrom(server, '/chat/completions', {
    model,
    messages: [{ role: 'user', content }],
    stream: true,
    stream_options: { include_usage: true },
  })
  const onText = (text: string) => io.stdout(toHarmless(text))
  const onThinking = () => io.stderr('[thinking …]\n')
  const reading = io.json ? readAnswer(response) : readAnswer(response, onText, onThinking)
  const answer = await reading.catch((error) => {
    if (!io.json) io.stdout('\n')
    throw error instanceof CommandError
      ? error
      : new CommandError('broken_off', `The response was interrupted: ${messageOf(error)}. Try again.`)
  })
  const durationMs = Math.round(performance.now() - startedMs)
  if (io.json) return printJson(io, toDocument(answer, durationMs))
  io.stdout('\n')
  io.stderr(toSummary(answer, durationMs))
}

const ignore = () => {}

/** Drops control characters, which a terminal would obey. */
const toHarmless = (text: string) => text.replace(/[\p{Cc}--[\n\t]]/gv, '')

async function toQuestion(words: readonly string[], io: Context): Promise<string> {
  const piped = (await io.stdin())?.trim() ?? ''
  const question = [words.join(' ').trim(), piped].filter(Boolean).join('\n\n')
  if (question === '') throw usageError('The prompt is missing. Pass one, e.g. tollgate ask "Hello", or pipe it in.')
  return question
}

export interface Offer {
  id: string
  owned_by: string
  is_ready: boolean
  alias_of?: string | null
  context_length: number
  output_modalities: string[]
  supported_features: string[]
  pricing: { prompt: string; completion: string }[]
}

export async function listOffers(server: AskedServer): Promise<Offer[]> {
  const { data }: { data: Offer[] } = JSON.parse(await (await fetchFrom(server, '/models')).text())
  return data
}

/** The cheapest that chats with text, the demo last. */
export const toCheapest = (offers: readonly Offer[]): Offer | undefined =>
  offers
    .filter(({ output_modalities: output }) => canWrite(output))
    .toSorted((a, b) => Number(isDemo(a)) - Number(isDemo(b)) || toPrice(a) - toPrice(b))[0]

export const canWrite = (made: readonly string[]) => made.includes('text') && endpointsOf(made).includes('chat')

const isDemo = ({ owned_by: owner }: Offer) => owner === 'tollgate'
const toPrice = ({ pricing: [first] }: Offer) => Number(first?.prompt ?? 0) + Number(first?.completion ?? 0)

async function chooseModel(server: AskedServer): Promise<string> {
  const offers = await listOffers(server)
  const best = toCheapest(offers.filter((offer) => offer.is_ready && !offer.alias_of))
  if (best) return best.id
  const why = offers.length === 0 ? 'No model is available' : 'No model is ready'
  throw new CommandError('no_model', `${why}. See why: tollgate upstreams list. Or pass --model.`)
}

const toDocument = ({ requestId, model, text, finishReason, usage }: ReceivedAnswer, durationMs: number) => ({
  id: requestId,
  model,
  text,
  finish_reason: finishReason,
  prompt_tokens: usage.prompt_tokens,
  completion_tokens: usage.completion_tokens,
  cost_nano_usd: usage.cost_nano_usd,
  duration_ms: durationMs,
})

function toSummary({ model, finishReason, usage }: ReceivedAnswer, durationMs: number): string {
  const tokens = `${usage.prompt_tokens} input, ${usage.completion_tokens} output`
  const end = finishReason === 'stop' ? '' : `, finish reason: ${toOneLine(finishReason)}`
  return `[${toOneLine(model)}: ${tokens}, $${toUsd(usage.cost_nano_usd)}, ${(durationMs / 1_000).toFixed(1)} s${end}]\n`
}

export interface AskedServer {
  /** Ends in `/v1`. */
  base: string
  /** Null for a network address. */
  unix: string | null
  key: string | null
  /** For errors. */
  keyFrom: '--key' | 'TOLLGATE_KEY'
}

const DEFAULT_URL = 'http://127.0.0.1:4000/v1'

/** @throws CommandError if no server can be used. */
export async function chooseServer(
  { key: flag, url }: { key?: string; url?: string },
  io: Context,
): Promise<AskedServer> {
  const key = flag ?? (io.environment.TOLLGATE_KEY || null)
  const keyFrom = flag === undefined ? 'TOLLGATE_KEY' : '--key'
  if (url !== undefined && key === null) throw usageError('--url requires a key. Pass --key or set TOLLGATE_KEY.')
  if (url !== undefined) return { base: toBase(url), unix: null, key, keyFrom }
  const found = await findServer(io.dataFolder)
  if (key !== null) {
    return { base: found.kind === 'server' ? found.status.url : DEFAULT_URL, unix: null, key, keyFrom }
  }
  const other = 'to use another server, pass --url and --key'
  if (found.kind === 'none')
    throw new CommandError(
      'no_server',
      `No server is running on ${io.dataFolder}. Start it: tollgate serve --data ${io.dataFolder}; ${other}.`,
    )
  if (found.kind === 'silent')
    throw new CommandError('server_silent', `Can't reach the server: ${found.why}; ${other}.`)
  return { base: 'http://localhost/system/v1', unix: socketPath(io.dataFolder), key, keyFrom }
}

function toBase(url: string): string {
  const parsed = URL.parse(url)
  if (parsed?.protocol !== 'http:' && parsed?.protocol !== 'https:')
    throw usageError(`--url must be an http or https URL, e.g. ${DEFAULT_URL} (got '${withoutSecrets(url)}').`)
  const base = url.replace(/\/+$/, '')
  return base.endsWith('/v1') ? base : `${base}/v1`
}

/** By POST if it has a body. Throws a CommandError for any status but 2xx. */
export async function fetchFrom(server: AskedServer, path: string, body?: unknown): Promise<Response> {
  const { base, unix, key, keyFrom } = server
  const response = await fetch(`${base}${path}`, {
    ...(unix === null ? {} : { unix }),
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    headers: { 'content-type': 'application/json', ...(key === null ? {} : { authorization: `Bearer ${key}` }) },
    redirect: 'manual',
    // Responses may take any time.
    ...{ timeout: false },
  }).catch((error) => {
    throw new CommandError('server_silent', `Can't reach ${base}: ${reasonOf(error)}. Start the server, or pass --url.`)
  })
  if (response.ok) return response
  const { kind, message } = toFailure(await response.text(), response.status)
  throw new CommandError(kind, response.status === 401 && key !== null ? `${message} (Key from ${keyFrom}.)` : message)
}

/** Other bodies are reported by their status. */
function toFailure(text: string, status: number): { kind: string; message: string } {
  try {
    const { error } = JSON.parse(text)
    if (typeof error.message === 'string')
      return { kind: error.code ?? error.type ?? 'refused', message: error.message }
  } catch {}
  return {
    kind: 'refused',
    message: `The server returned ${status}, and not as Tollgate does. Check the URL.`,
  }
}

/** Drops the question at the end of the runtime's messages. */
const reasonOf = (error: unknown) => UNREACHED.get(codeOf(error)) ?? messageOf(error).replace(/[.?]$/, '')

const UNREACHED: ReadonlyMap<string, string> = new Map([
  ['ECONNREFUSED', 'connection refused'],
  ['ConnectionRefused', 'connection refused'],
  ['ENOTFOUND', 'host name does not resolve'],
])

interface ReceivedAnswer {
  /** `req_` and the ID in the ledger. */
  requestId: string
  model: string
  text: string
  finishReason: string
  usage: { prompt_tokens: number; completion_tokens: number; cost_nano_usd: number }
}

interface Chunk {
  model: string
  choices: {
    delta: { content?: string | null; refusal?: string | null; reasoning?: string }
    finish_reason: string | null
  }[]
  usage?: ReceivedAnswer['usage'] | null
}

/**
 * @param onThinking called if the model starts with reasoning, which is not shown and may take long.
 * @throws CommandError if the stream ends in an error or early.
 */
export async function readAnswer(
  response: Response,
  onText: (text: string) => void = ignore,
  onThinking: () => void = ignore,
): Promise<ReceivedAnswer> {
  const requestId = response.headers.get('x-request-id') ?? ''
  const answer: ReceivedAnswer = {
    requestId,
    model: '',
    text: '',
    finishReason: 'stop',
    usage: { prompt_tokens: 0, completion_tokens: 0, cost_nano_usd: 0 },
  }
  let isThinking = false
  for await (const data of toFrames(response)) {
    if (data === '[DONE]') return answer
    if (data.startsWith('{"error"')) {
      const { kind, message } = toFailure(data, response.status)
      throw new CommandError(kind, message)
    }
    const { model, choices, usage }: Chunk = JSON.parse(data)
    answer.model = model
    if (usage) answer.usage = usage
    for (const { delta, finish_reason: reason } of choices) {
      if (delta.reasoning && !isThinking) {
        isThinking = true
        onThinking()
      }
      const text = delta.content ?? delta.refusal ?? ''
      if (text !== '') onText(text)
      answer.text += text
      answer.finishReason = reason ?? answer.finishReason
    }
  }
  throw new CommandError('broken_off', 'The response was interrupted: the server closed the connection. Try again.')
}

/** Skips keep-alive comments. */
async function* toFrames(response: Response): AsyncGenerator<string> {
  let rest = ''
  const utf8 = new TextDecoder()
  for await (const piece of response.body ?? []) {
    const lines = (rest + utf8.decode(piece, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line.startsWith('data: ')) yield line.slice('data: '.length)
  }
}
