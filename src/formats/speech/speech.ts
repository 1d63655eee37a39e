/** Speech as a client format: bytes of audio, or OpenAI's events with them. */
import { GatewayError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { asObject } from '../../domain/json.ts'
import { SpeechRequest } from '../../domain/speech.ts'
import type { EndpointTask, Task } from '../../domain/task.ts'
import type { Receipt } from '../../domain/usage.ts'
import { measurePrompt } from '../../tokens/estimate.ts'
import { BytesWriter } from '../bytes.ts'
import { openAiErrors } from '../chat/chat.ts'
import { checkModel, createBodyCheck, notAnObject, toExtras, toSchemaRefusal, toUser } from '../checked-body.ts'
import { speechChecker } from '../checker.macro.ts' with { type: 'macro' }
import { type Format, KEEP_ALIVE, type Writer, withCost } from '../format.ts'
import { type SpeechBody, SpeechSchema } from './schema.ts'

const checkBody = createBodyCheck<SpeechBody>(speechChecker(), (body) => {
  const given = asObject(body)
  if (given === null) return notAnObject('{"model": …, "input": …, "voice": …}')
  return checkModel(given) ?? toSchemaRefusal(SpeechSchema, given, 'Invalid speech request.')
})

export const speech = {
  ...openAiErrors,
  toTask(body) {
    const checked = checkBody(body)
    return checked instanceof GatewayError ? checked : toTask(checked)
  },
  whole: () => {
    throw new Error('speech is always streamed')
  },
  writer: (task: Task) => toWriter(task as EndpointTask<SpeechRequest>),
} satisfies Format

const USUAL_FORMAT = 'mp3'

function toTask(asked: SpeechBody): EndpointTask<SpeechRequest> {
  const { model, input, voice = null, instructions = null, response_format: format, speed = null } = asked
  const text = { input, voice, instructions, format: format?.toLowerCase() || USUAL_FORMAT, speed }
  const body = new SpeechRequest(model, text, asked.stream_format === 'sse', toExtras(asked, OWN))
  return {
    ...{ endpoint: 'speech', model, body, stream: true, cap: body.max_tokens, user: toUser(asked) },
    ...measurePrompt(body),
    affinity: () => JSON.stringify(voice),
  }
}

const OWN = ['model', 'input', 'voice', 'instructions', 'response_format', 'speed', 'stream_format', 'stream']

const TYPES: ReadonlyMap<string, string> = new Map([
  ['mp3', 'audio/mpeg'],
  ['opus', 'audio/ogg'],
  ['ogg', 'audio/ogg'],
  ['aac', 'audio/aac'],
  ['flac', 'audio/flac'],
  ['wav', 'audio/wav'],
  ['pcm', 'audio/pcm'],
])

const toWriter = ({ body }: EndpointTask<SpeechRequest>): Writer =>
  body.asEvents ? new SpeechEvents() : new BytesWriter(TYPES.get(body.text.format) ?? 'application/octet-stream')

const toFrame = (event: object | string) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`

class SpeechEvents implements Writer {
  readonly keepAlive = KEEP_ALIVE

  take(events: readonly AnswerEvent[]): string {
    let frames = ''
    for (const event of events)
      if (event.kind === 'bytes')
        frames += toFrame({ type: 'speech.audio.delta', audio: Buffer.from(event.bytes).toString('base64') })
    return frames
  }

  tail({ usage: { prompt, completion }, costNanoUsd }: Receipt): string {
    const counts = { input_tokens: prompt, output_tokens: completion, total_tokens: prompt + completion }
    return toFrame(`{"type":"speech.audio.done","usage":${withCost(counts, costNanoUsd)}}`)
  }

  failure(error: GatewayError): string {
    return toFrame(error.toBody())
  }
}
