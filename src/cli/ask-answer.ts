/** Reads the stream that answers `ask`: its text as it comes, and at its end what it took. */

import { toFailure } from './ask-server.ts'
import { CommandError } from './command-error.ts'

export interface ReceivedAnswer {
  /** As the log and the ledger have it, behind `req_`. */
  requestId: string
  model: string
  text: string
  finishReason: string
  usage: { prompt_tokens: number; completion_tokens: number; cost_nano_usd: number }
}

/** What `ask` reads of a chunk. */
interface Chunk {
  model: string
  choices: {
    delta: { content?: string | null; refusal?: string | null; reasoning?: string }
    finish_reason: string | null
  }[]
  usage?: ReceivedAnswer['usage'] | null
}

/**
 * @param onText takes each piece as it comes.
 * @param onThinking is called once, where the model begins with thoughts, which are not shown and may take long.
 * @throws CommandError where the stream ends in an error, or without a word.
 */
export async function readAnswer(
  response: Response,
  onText: (text: string) => void,
  onThinking: () => void,
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
  throw new CommandError('broken_off', 'The answer broke off: the server closed the connection.')
}

/** The data of each event; comments, which only say that the stream lives, are skipped. */
async function* toFrames(response: Response): AsyncGenerator<string> {
  let rest = ''
  const utf8 = new TextDecoder()
  for await (const piece of response.body ?? []) {
    const lines = (rest + utf8.decode(piece, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line.startsWith('data: ')) yield line.slice('data: '.length)
  }
}
