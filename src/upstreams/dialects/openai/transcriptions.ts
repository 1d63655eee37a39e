/** Transcriptions in the OpenAI format and its variants: forwards the client's form, and reads responses of any media type. */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject, tryJson } from '../../../domain/json.ts'
import { writeForm } from '../../../domain/multipart.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { isOfText, type TranscriptionRequest } from '../../../domain/transcriptions.ts'
import { toChatPath, toQuery } from '../../auth.ts'
import type { SseEvent } from '../../framing.ts'
import type { Decoder, EndpointFormat } from '../dialect.ts'
import { openAiErrors } from './errors.ts'
import { toFormChanges } from './field-changes.ts'
import { readTranscriptUsage, toUsageEvents } from './transcript-usage.ts'

const JSON_TYPE = 'application/json'
const EVENT_STREAM = 'text/event-stream'
const CHATS = '/chat/completions'

export const transcriptions: EndpointFormat<TranscriptionRequest> = {
  request(asked, target) {
    const { form } = asked
    const { options } = target.upstream
    const { names, dropped } = toFormChanges(form, options)
    const values = new Map([['model', target.upstreamModel]])
    const rest = writeForm(form, { values, names, dropped })
    return { path: toPath(asked, target), body: '', rest, headers: { 'content-type': form.contentType } }
  },

  accept: ({ stream }) => (stream ? `${EVENT_STREAM}, ${JSON_TYPE}` : '*/*'),

  whole(json, asked, target, text) {
    if (typeof json === 'string' && isOfText(asked)) return toEvents(asked, target, null, json, json)
    const answer = asObject(json)
    const error = answer && typeof answer.text !== 'string' ? openAiErrors.find(answer) : null
    if (error) throw openAiErrors.read(null, error, target)
    if (answer === null || typeof answer.text !== 'string')
      throw new UpstreamError('broken', 'returned 200 with an invalid transcription')
    const { format } = asked.fields
    if (!isOfText(asked)) return toEvents(asked, target, answer, text, answer.text)
    if (format === 'text') return toEvents(asked, target, answer, `${answer.text}\n`, answer.text)
    throw new UpstreamError('broken', `returned JSON to a request for ${format}`)
  },

  plain(text, asked, target) {
    if (isOfText(asked)) return toEvents(asked, target, null, text, text)
    // Some servers label JSON as text.
    const json = tryJson(text)
    if (json === undefined) throw new UpstreamError('broken', 'returned 200 with something that is not JSON')
    return transcriptions.whole(json, asked, target, text)
  },

  stream: (mediaType, asked, target) =>
    mediaType === EVENT_STREAM ? { framing: 'events', decoder: new TranscriptDecoder(asked, target) } : null,
}

/** Derived from the chat path if that is the usual one. Otherwise the configured path, such as whisper.cpp's `/inference`. */
function toPath({ endpoint }: TranscriptionRequest, { upstream: { options }, upstreamModel }: Target): string {
  const path = toChatPath(options, upstreamModel, CHATS)
  const own = path.endsWith(CHATS) ? `${path.slice(0, -CHATS.length)}/audio/${endpoint}` : path
  return `${own}${toQuery(options)}`
}

function toEvents(
  asked: TranscriptionRequest,
  target: Target,
  answer: JsonObject | null,
  body: string,
  text: string,
): AnswerEvent[] {
  const reported = answer && readTranscriptUsage(answer, asked, target)
  const named = answer && (typeof answer.model === 'string' ? { ...answer, model: asked.model } : answer)
  const [json, shown] = isOfText(asked) ? [null, body] : [named, text]
  return [
    { kind: 'text', choice: 0, text },
    { kind: 'result', result: { of: 'transcript', json, text: shown } },
    ...toUsageEvents(reported, asked, target, answer, body),
    { kind: 'done' },
  ]
}

/** Forwards OpenAI's events unchanged. Converts those of vLLM and Mistral to OpenAI's. */
class TranscriptDecoder implements Decoder {
  readonly #asked: TranscriptionRequest
  readonly #target: Target
  #text = ''
  #usage: JsonObject | null = null
  #isDone = false

  constructor(asked: TranscriptionRequest, target: Target) {
    this.#asked = asked
    this.#target = target
  }

  take(): number {
    return 0
  }

  event({ data }: SseEvent, out: AnswerEvent[]): void {
    if (this.#isDone) return
    if (data === '[DONE]') {
      this.#finish(null, '', out)
      return
    }
    const json = asObject(tryJson(data))
    if (json === null) throw new UpstreamError('broken', 'sent an event that is not JSON')
    const { type } = json
    const error = typeof type === 'string' && type !== 'error' ? null : openAiErrors.find(json)
    if (error) {
      this.#isDone = true
      out.push({ kind: 'failure', error: openAiErrors.read(null, error, this.#target) })
      return
    }
    switch (type) {
      case 'transcript.text.delta':
        this.#delta(asText(json.delta), data, out)
        return
      case 'transcription.text.delta':
        this.#delta(asText(json.text), null, out)
        return
      case 'transcription.segment':
        this.#pass(JSON.stringify({ ...json, type: 'transcript.text.segment' }), out)
        return
      case 'transcript.text.done':
      case 'transcription.done':
        this.#finish(json, data, out)
        return
      case 'transcription.language':
        return
      case undefined:
        this.#chunk(json, out)
        return
      default:
        this.#pass(data, out)
    }
  }

  end(out: AnswerEvent[]): void {
    if (this.#isDone) return
    out.push({
      kind: 'failure',
      error: new UpstreamError('broken', 'ended its stream before the response was complete'),
    })
  }

  #chunk(json: JsonObject, out: AnswerEvent[]): void {
    const choice = asObject(asList(json.choices)[0])
    const text = asText(asObject(choice?.delta)?.content)
    if (text !== '') this.#delta(text, null, out)
    this.#usage = asObject(json.usage) ?? this.#usage
  }

  #delta(text: string, data: string | null, out: AnswerEvent[]): void {
    this.#text += text
    this.#pass(data ?? JSON.stringify({ type: 'transcript.text.delta', delta: text }), out)
    out.push({ kind: 'text', choice: 0, text })
  }

  #pass(data: string, out: AnswerEvent[], isTail = false): void {
    out.push({ kind: 'raw', name: null, data, origin: null, isContent: !isTail, isTail })
  }

  /** @param json the final event; null if the stream ends with `[DONE]`. */
  #finish(json: JsonObject | null, data: string, out: AnswerEvent[]): void {
    this.#isDone = true
    const usage = this.#usage
    const done = json ?? { type: 'transcript.text.done', text: this.#text, ...(usage && { usage }) }
    const isOwn = json?.type === 'transcript.text.done'
    const written = isOwn
      ? data
      : JSON.stringify({ ...done, ...(json?.model ? { model: this.#asked.model } : {}), type: 'transcript.text.done' })
    // An empty text is a valid transcript, of silence.
    if (this.#text === '') out.push({ kind: 'text', choice: 0, text: asText(done.text) })
    this.#pass(written, out, true)
    const reported = readTranscriptUsage(done, this.#asked, this.#target)
    out.push(...toUsageEvents(reported, this.#asked, this.#target, done, data), { kind: 'done' })
  }
}
