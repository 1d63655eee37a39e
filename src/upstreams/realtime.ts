/**
 * WebSocket to an upstream's realtime API, and the usage in its events
 * (https://platform.openai.com/docs/guides/realtime-websocket).
 */

import type { EndSignal } from '../domain/end-signal.ts'
import { endOf, UpstreamError } from '../domain/error.ts'
import { asObject, asText, type JsonObject } from '../domain/json.ts'
import type { Target, Upstream } from '../domain/snapshot.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import { dialectOf } from './dialects/dialects.ts'
import { asCount } from './dialects/readings.ts'
import { toOwnHeaders } from './probe.ts'

/** @param callId sent as `x-client-request-id`. Throws an UpstreamError. */
export async function connectRealtime(
  { upstreamModel }: Target,
  upstream: Upstream,
  callId: string,
  isTranscription: boolean,
  signal: EndSignal,
): Promise<WebSocket> {
  const format = await dialectOf(upstream).load?.()
  const url = URL.parse(`${upstream.baseUrl}/realtime`)
  if (!format || url === null) throw new UpstreamError('broken', 'base_url is not a valid URL', { retryable: false })
  url.protocol = url.protocol === 'http:' ? 'ws:' : 'wss:'
  for (const [name, value] of Object.entries(upstream.options.query ?? {})) url.searchParams.set(name, value)
  // OpenAI refuses a model in the URL of a transcription session, whose settings name the model.
  if (isTranscription) url.searchParams.set('intent', 'transcription')
  else url.searchParams.set('model', upstreamModel)
  const headers = { ...toOwnHeaders(upstream), ...format.headers(upstream), 'x-client-request-id': callId }
  const socket = new WebSocket(url, { headers })
  const opened = Promise.withResolvers<WebSocket>()
  socket.onopen = () => opened.resolve(socket)
  // A refused upgrade shows only its status.
  socket.onerror = (event) => opened.reject(toFailure('message' in event ? String(event.message) : ''))
  socket.onclose = ({ reason }) => opened.reject(toFailure(reason))
  const ms = upstream.deadlines.headers
  const timer = setTimeout(
    () => opened.reject(new UpstreamError('deadline', `no connection within ${ms / 1_000} s`, { deadline: 'headers' })),
    ms,
  )
  const leave = () => opened.reject(endOf(signal))
  signal.addEventListener('abort', leave, { once: true })
  try {
    return await opened.promise
  } catch (error) {
    socket.terminate()
    throw error
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  }
}

function toFailure(said: string): UpstreamError {
  const status = Number(/status code: (\d{3})/.exec(said)?.[1] ?? Number.NaN)
  if (Number.isNaN(status)) return new UpstreamError('connection', 'the WebSocket could not be opened')
  // The server works, but has no WebSocket.
  if (status < 400)
    return new UpstreamError('broken', `returned ${status} instead of a WebSocket; it may have no realtime API`, {
      isSpoiled: true,
    })
  const retryable = status === 429 || status >= 500
  return new UpstreamError('status', `The provider refused the WebSocket with status ${status}.`, { status, retryable })
}

const count = (value: unknown): number => asCount(value) ?? 0

/** Usage in `response.done`. `input_token_details` are parts of `input_tokens`, and include `cached_tokens_details`. */
export function toResponseUsage(said: JsonObject): Usage {
  const input = asObject(said.input_token_details) ?? {}
  const cached = asObject(input.cached_tokens_details) ?? {}
  const output = asObject(said.output_token_details) ?? {}
  const uncached = (kind: string) => Math.max(0, count(input[kind]) - count(cached[kind]))
  return {
    ...NO_USAGE,
    prompt: count(said.input_tokens),
    cacheRead: count(input.cached_tokens),
    audioPrompt: uncached('audio_tokens'),
    imagePrompt: uncached('image_tokens'),
    completion: count(said.output_tokens),
    audioCompletion: count(output.audio_tokens),
  }
}

/** Usage in `conversation.item.input_audio_transcription.completed`, which is from another model. */
export function toTranscriptionUsage(said: JsonObject): Usage {
  if (said.type === 'duration')
    return {
      ...NO_USAGE,
      audioMs: Math.max(1, typeof said.seconds === 'number' ? count(said.seconds * 1_000) : 0),
      countedBy: 'upstream',
    }
  const { audio_tokens } = asObject(said.input_token_details) ?? {}
  return {
    ...NO_USAGE,
    prompt: count(said.input_tokens),
    audioPrompt: count(audio_tokens),
    completion: count(said.output_tokens),
  }
}

/** Bytes per second of audio; 24 kHz, 16 bit, unless the session says otherwise. */
export const bytesPerSecond = (format: unknown): number => {
  const type = asText(asObject(format)?.type) || asText(format)
  return /pcmu|pcma|g711/.test(type) ? 8_000 : 48_000
}
