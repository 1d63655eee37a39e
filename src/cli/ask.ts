/**
 * `tollgate ask`: puts one question to a model through a running server, and prints the answer as it comes; what it took goes
 * to standard error. Without a key it asks over the control socket, which is the owner's alone; with one, as any client does.
 */

import { messageOf } from '../domain/error.ts'
import { count } from '../domain/text.ts'
import { toUsd } from '../domain/usage.ts'
import { type ReceivedAnswer, readAnswer } from './ask-answer.ts'
import { type AskedServer, chooseServer, fetchFrom } from './ask-server.ts'
import { CommandError, usageError } from './command-error.ts'
import { type Context, printJson, toOneLine } from './io.ts'

/** The options of `ask`, as they stand on the command line. */
export interface AskFlags {
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
  const reading = io.json ? readAnswer(response, ignore, ignore) : readAnswer(response, onText, onThinking)
  const answer = await reading.catch((error) => {
    if (!io.json) io.stdout('\n')
    throw error instanceof CommandError
      ? error
      : new CommandError('broken_off', `The answer broke off: ${messageOf(error)}.`)
  })
  const durationMs = Math.round(performance.now() - startedMs)
  if (io.json) return printJson(io, toDocument(answer, durationMs))
  io.stdout('\n')
  io.stderr(toSummary(answer, durationMs))
}

const ignore = () => {}

/** Without control characters, which would be commands to a terminal. */
const toHarmless = (text: string) => text.replace(/[\p{Cc}--[\n\t]]/gv, '')

/** The words, and what is piped in behind them. */
async function toQuestion(words: readonly string[], io: Context): Promise<string> {
  const piped = (await io.stdin())?.trim() ?? ''
  const question = [words.join(' ').trim(), piped].filter(Boolean).join('\n\n')
  if (question === '') throw usageError('There is no question. Write one, such as tollgate ask "Hello", or pipe it in.')
  return question
}

interface Offer {
  id: string
  owned_by: string
  is_ready: boolean
  alias_of?: string | null
  output_modalities: string[]
  pricing: { prompt: string; completion: string }[]
}

/** The cheapest model that is ready to answer in text; the demo only where there is no other. */
async function chooseModel(server: AskedServer): Promise<string> {
  const { data }: { data: Offer[] } = JSON.parse(await (await fetchFrom(server, '/models')).text())
  const ready = data.filter((offer) => offer.is_ready && !offer.alias_of && offer.output_modalities.includes('text'))
  const [best] = ready.sort((a, b) => Number(isDemo(a)) - Number(isDemo(b)) || toPrice(a) - toPrice(b))
  if (best) return best.id
  const why = data.length === 0 ? 'There is no model that may be asked' : 'No model is ready'
  throw new CommandError('no_model', `${why}. See why with: tollgate upstreams list. Or name one with --model.`)
}

const isDemo = ({ owned_by: owner }: Offer) => owner === 'tollgate'
const toPrice = ({ pricing: [first] }: Offer) => Number(first?.prompt ?? 0) + Number(first?.completion ?? 0)

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
  const tokens = `${usage.prompt_tokens} + ${count(usage.completion_tokens, 'token')}`
  const end = finishReason === 'stop' ? '' : `, ended for: ${toOneLine(finishReason)}`
  return `[${toOneLine(model)}: ${tokens}, $${toUsd(usage.cost_nano_usd)}, ${(durationMs / 1_000).toFixed(1)} s${end}]\n`
}
