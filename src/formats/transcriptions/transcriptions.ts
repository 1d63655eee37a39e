/** OpenAI's `POST /v1/audio/transcriptions` and `/translations` as client formats. Their bodies are forms. */
import { measureAudio } from '../../audio/duration.ts'
import { resultOf } from '../../domain/endpoint-results.ts'
import { type Decision, GatewayError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { isMiswritten, toPlainName } from '../../domain/fields.ts'
import { asObject, type JsonObject, tryJson } from '../../domain/json.ts'
import { type Form, isForm, onlyPart, type Part, readForm, textOf } from '../../domain/multipart.ts'
import type { EndpointTask } from '../../domain/task.ts'
import { isOfText, TranscriptionRequest } from '../../domain/transcriptions.ts'
import type { Receipt, Usage } from '../../domain/usage.ts'
import { measurePrompt } from '../../tokens/estimate.ts'
import { openAiErrors } from '../chat/chat.ts'
import { invalid } from '../checked-body.ts'
import { type Format, type InTurn, KEEP_ALIVE, type Writer, withCost } from '../format.ts'

/** The form's file, whose audio is measured. */
function audioOf(form: Form): Decision<Part> {
  const file = onlyPart(form, 'file')
  if (file instanceof GatewayError) return file
  if (file === null)
    return invalid(
      "Missing required parameter: 'file'. Send the audio itself as a file of the form.",
      'file',
      'missing_required_parameter',
    )
  if (file.filename === null)
    return invalid(
      "Invalid 'file': expected a file with a name, but got a field. Add a filename, such as `audio.wav`.",
      'file',
      'invalid_type',
    )
  return file.end > file.start ? file : invalid("Invalid 'file': it is empty.", 'file', 'invalid_value')
}

/** Known fields. All others are forwarded as extras. */
const OWN: ReadonlySet<string> = new Set([
  'model',
  'file',
  'prompt',
  'response_format',
  'stream',
  'language',
  'temperature',
])
/** Fields that may occur only once, because upstreams differ in which of several values they use. */
const SINGLE = ['model', 'prompt', 'response_format', 'stream', 'language', 'temperature']
const TRUE: ReadonlySet<string> = new Set(['true', '1', 'on', 'yes', 't', 'y'])
const FALSE: ReadonlySet<string> = new Set(['false', '0', 'off', 'no', 'f', 'n', ''])

const MAX_MODEL_CHARS = 512
const MAX_USER_CHARS = 256

async function toTask(
  endpoint: TranscriptionRequest['endpoint'],
  bytes: Uint8Array,
  contentType: string,
  inTurn: InTurn,
): Promise<Decision<EndpointTask>> {
  const form = await inTurn(() => readForm(bytes, contentType))
  if (form instanceof GatewayError) return form
  const file = audioOf(form)
  if (file instanceof GatewayError) return file
  const fields = readFields(form)
  if (fields instanceof GatewayError) return fields
  const { model, response_format: format, stream = '', prompt = '' } = fields.values
  if (!model) return invalid('you must provide a model parameter', 'model', 'missing_required_parameter')
  if (model.length > MAX_MODEL_CHARS)
    return invalid("Invalid 'model': string too long.", 'model', 'string_above_max_length')
  const isStream = TRUE.has(stream.toLowerCase())
  if (!isStream && !FALSE.has(stream.toLowerCase()))
    return invalid("Invalid 'stream': expected `true` or `false`.", 'stream', 'invalid_type')
  const { user } = fields.extras
  const length = await measureAudio(form.bytes.subarray(file.start, file.end), inTurn)
  const body = new TranscriptionRequest(
    endpoint,
    {
      ...{ model, format: format ?? null, prompt, extras: fields.extras },
      stream: isStream && endpoint === 'transcriptions',
      user: typeof user === 'string' && user !== '' ? user.slice(0, MAX_USER_CHARS) : null,
    },
    form,
    length,
  )
  return {
    ...{ endpoint, model, body, stream: body.stream, cap: body.max_tokens, ...measurePrompt(body) },
    user: body.user,
    affinity: () => model,
  }
}

function readFields(form: Form): Decision<{ values: Record<string, string | undefined>; extras: JsonObject }> {
  const values: Record<string, string | undefined> = {}
  const extras: JsonObject = {}
  for (const name of SINGLE) {
    const part = onlyPart(form, name)
    if (part instanceof GatewayError) return part
    if (part !== null) values[name] = textOf(form, part).trim()
  }
  for (const part of form.parts) {
    const base = part.name.replace(/\[.*/s, '')
    // Some upstreams read `model[]` or `Model` as the model.
    if (!OWN.has(part.name) && (isMiswritten(base) || OWN.has(base) || OWN.has(toPlainName(base))))
      return invalid(`Unknown parameter: '${part.name.slice(0, 64)}'.`, base.slice(0, 64), 'unknown_parameter')
    if (part.filename !== null && part.name !== 'file')
      return invalid(
        `Unsupported parameter: '${part.name.slice(0, 64)}' can't be a file. Only 'file' can.`,
        base.slice(0, 64),
        'unsupported_parameter',
      )
    if (!OWN.has(part.name)) extras[base] = textOf(form, part)
  }
  return { values, extras }
}

/** The last event has the usage. It's written only once the ledger has the outcome. */
class TranscriptWriter implements Writer {
  readonly keepAlive = KEEP_ALIVE
  #done: JsonObject | null = null

  take(events: readonly AnswerEvent[]): string {
    let frames = ''
    for (const event of events) {
      if (event.kind === 'raw') {
        if (event.isTail) this.#done = asObject(tryJson(event.data))
        else frames += toFrame(event.data)
      }
      // The upstream didn't stream.
      if (event.kind === 'result' && event.result.of === 'transcript') {
        const { text, json } = event.result
        if (text !== '') frames += toFrame(JSON.stringify({ type: 'transcript.text.delta', delta: text }))
        this.#done = { type: 'transcript.text.done', text, ...(json?.usage ? { usage: json.usage } : {}) }
      }
    }
    return frames
  }

  tail(receipt: Receipt): string {
    return this.#done === null ? '' : toFrame(withReceipt(this.#done, receipt))
  }

  failure(error: GatewayError): string {
    return toFrame(JSON.stringify({ type: 'error', ...error.toBody() }))
  }
}

/** Each line of the JSON becomes a line of `data:`. */
const toFrame = (json: string) => `data: ${json.replaceAll('\n', '\ndata: ')}\n\n`

/** Adds the cost to the upstream's own usage, or to ours if the upstream reports none. */
function withReceipt({ usage: said, ...rest }: JsonObject, { usage, costNanoUsd }: Receipt): string {
  const written = withCost(asObject(said) ?? toUsage(usage), costNanoUsd)
  return `${JSON.stringify(rest).slice(0, -1)},"usage":${written}}`
}

const toUsage = ({ audioMs, prompt, completion }: Usage) =>
  audioMs
    ? { type: 'duration', seconds: audioMs / 1_000 }
    : { type: 'tokens', input_tokens: prompt, output_tokens: completion, total_tokens: prompt + completion }

const formatOf = (endpoint: TranscriptionRequest['endpoint']) =>
  ({
    ...openAiErrors,
    toTask: () =>
      invalid("Send the audio as a file of a form, with 'Content-Type: multipart/form-data'.", 'file', null),
    form: {
      accepts: isForm,
      isOnly: true,
      toTask: (bytes, headers, inTurn) => toTask(endpoint, bytes, headers['content-type'] ?? '', inTurn),
    },
    whole(_task, _identity, events, receipt) {
      const { json, text } = resultOf('transcript', events)
      return json === null ? text : withReceipt(json, receipt)
    },
    type: ({ body }) =>
      body instanceof TranscriptionRequest && isOfText(body) ? 'text/plain; charset=utf-8' : 'application/json',
    writer: () => new TranscriptWriter(),
  }) satisfies Format

export const transcriptions = formatOf('transcriptions')
export const translations = formatOf('translations')
